//! The page of documentation about the proxy, made from the code.

use std::fmt::Write as _;

use clap::Command;
use runtime::metrics::catalogue;

use crate::flags::Args;
use crate::metrics::METRICS;
use crate::outcome::Outcome;

/// What we do otherwise than kube-rbac-proxy v0.21.0, and why: weakness, what it did, what we do.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "W1",
        "on ignored paths a client's own identity headers and `Authorization` reached the upstream",
        "both are removed",
    ),
    (
        "W2",
        "without `--auth-header-fields-enabled` a client's own identity headers reached the upstream",
        "the configured names and the `X-Remote-*` family are always removed, also spelled with underscores, also from trailers",
    ),
    ("W3", "`Connection: x-remote-user` removed the header that the proxy had set", "400; ours are set last"),
    (
        "W4",
        "`Upgrade: h2c` and others were tunnelled past authorization",
        "only `--upgrade-protocols` (websocket), never on ignored paths; others are ignored and answered over HTTP/1.1. With a body: 400",
    ),
    ("W5", "a rewrite's query could hide a value behind `;` or a bad escape", "400"),
    (
        "W6",
        "encoded dots, slashes and backslashes were authorized in one form and forwarded in another",
        "400, also for `..;`, zero bytes, bad escapes and what is not UTF-8",
    ),
    (
        "W7",
        "bad tokens were never remembered and shared 5 calls a second with everybody",
        "remembered for `--token-error-cache-ttl` in a store of their own; calls have budgets, of which one address has half; no hidden rate limit",
    ),
    (
        "W8",
        "caches of tokens had no bound, SubjectAccessReviews were not coalesced and had no deadline",
        "bounded in entries and bytes; one look-up for each question; `--kube-api-timeout`",
    ),
    ("W9", "`static[].user.groups` was ignored, and allowed everybody", "the user must be in one of them"),
    (
        "W10",
        "no timeouts for heads, idling, handshakes",
        "`--header-timeout`, `--idle-timeout`, `--stall-timeout`, `--max-header-bytes`, `--max-connections`",
    ),
    ("W11", "a group that holds the separator became two", "403"),
    (
        "W12",
        "tokens of the API server crossed the network in clear text",
        "still do without TLS: set `--auth-token-audiences`; a warning at the start says so. An answer without audiences is refused. For node pods, see below",
    ),
    ("W13", "401 while the API server is down", "the same by default; `--authentication-outage-status=503`"),
    ("W14", "paths with `//` or dots were redirected before authentication", "400"),
    ("W15", "cookies and CORS of the upstream pass", "the same"),
    ("W16", "a data race in ignored paths", "cannot be written in Rust"),
    (
        "W17",
        "`Host` is the client's",
        "the same by default; `--upstream-host-header` pins it. Two hosts, or one that is not the target's: 400",
    ),
    (
        "W18",
        "everybody who is known may read `/api/*` and others when requests are checked by path",
        "a warning at the start",
    ),
    ("", "two `Authorization` lines: the first counted", "400"),
    (
        "",
        "a length beside chunks, folded lines, and lines that end without a carriage return kept the connection",
        "400, and the connection is closed; so are two lengths, an encoding that is not just `chunked`, and versions that are none",
    ),
    ("", "a fragment or bytes beyond ASCII in a target were escaped and forwarded", "400"),
    (
        "",
        "a pair on disk that does not fit ended the process; upstream certificates were read once",
        "the old one stays, with a log line and a metric; all are read again every minute",
    ),
    (
        "",
        "an unknown key in the configuration was ignored; one without `authorization` crashed",
        "a warning with the likely key; everything is checked by path",
    ),
    ("", "YAML 1.1 turned names like `on` or `1e3` into others", "they stay as they are written"),
    (
        "",
        "a template that cannot be read broke every request",
        "refused at the start; only `{{ .Value }}` is one",
    ),
    ("", "draining had no end", "`--drain-timeout`"),
    ("", "upstream connections were kept for 90 s, after the sidecar had closed them", "50 s"),
    (
        "",
        "every request under way had an upstream connection of its own",
        "beyond 32 on a worker a request waits until one is free; it goes on after 10 ms in which none was, and after 100 ms at most",
    ),
    ("", "gzip was asked for behind the client's back", "it is not"),
    ("", "interim answers (1xx) other than 100 and 101 were forwarded", "they are not"),
    ("", "`HTTP_PROXY` was honoured for the upstream", "it is not"),
    (
        "",
        "distributed claims of OpenID Connect were followed",
        "such tokens are refused; verified tokens are remembered until they expire, at most for `--token-cache-ttl`",
    ),
];

/// How the operator and its proxies come to an audience of their own.
const AUDIENCE: &str = "
## An audience for the operator's token

The operator shows its token to every sidecar, through the proxy. By default that is the token of its own account, which is good for
the API server too. With `outrigger operator --proxy-token-audience=sidecars.sei.io` every proxy is started with
`--auth-token-audiences=sidecars.sei.io` and takes no other token, and the operator needs one of that audience, which the kubelet
makes and renews. The Deployment in `deploy/operator` has one already; two settings use it:

```
OUTRIGGER_PROXY_TOKEN_AUDIENCE=sidecars.sei.io
OUTRIGGER_SIDECAR_TOKEN_FILE=/var/run/secrets/outrigger/sidecar-token
```

The API server refuses such a token (401), so that whoever captures it can do no more than call sidecars until it expires.
Without the setting nothing is rendered, and no pod is replaced by an operator that knows it. Setting, changing or removing it
replaces every node's pod, as a new image of the proxy does; until a pod is replaced, its proxy refuses the operator's token, and
plans wait. A node that another operator has made is not replaced before its spec is edited: set it when all nodes are ours.
Other callers, whom `--sidecar-clients` names, need tokens of that audience too.
";

#[test]
fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
    let mut page = String::from(
        "# The authorizing proxy\n\n\
         Generated from the code; a test compares. `outrigger proxy`, also when the binary is called `kube-rbac-proxy`: every request is\n\
         authenticated, authorized by the API server, and forwarded. Exit codes: 0 told to end, 1 failed or wrong usage.\n\n\
         Flags are read as kube-rbac-proxy reads them: `--name=value` or `--name value`, underscores for hyphens, lists with commas and\n\
         quotes, which add up when repeated. Logging flags of old (`--logtostderr` and ten others) are taken and have no effect.\n",
    );
    let mut heading = None;
    let command = <Args as clap::Args>::augment_args(Command::new("proxy"));
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let _ = write!(
                page,
                "\n## {}\n\n| flag | default | what it says |\n|---|---|---|\n",
                heading.unwrap_or_default()
            );
        }
        let default: Vec<&str> = arg.get_default_values().iter().filter_map(|value| value.to_str()).collect();
        let default = default.join(" ").replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `--{}` | {} | {} |",
            arg.get_long().unwrap_or_default(),
            if default.is_empty() { default } else { format!("`{default}`") },
            arg.get_help().map(ToString::to_string).unwrap_or_default(),
        );
    }
    page.push_str("\n## How requests end\n\n| status | decision | reason |\n|---|---|---|\n");
    for outcome in Outcome::ALL {
        let forwarded = matches!(outcome, Outcome::Allowed | Outcome::Ignored);
        let status =
            if forwarded { "the upstream's".to_owned() } else { outcome.status().as_u16().to_string() };
        let _ = writeln!(page, "| {status} | `{}` | `{}` |", outcome.decision(), outcome.reason());
    }
    page.push_str("\n## Otherwise than kube-rbac-proxy v0.21.0\n\n| | it | we |\n|---|---|---|\n");
    for (id, it, we) in DIFFERENCES {
        let _ = writeln!(page, "| {id} | {it} | {we} |");
    }
    page.push_str(AUDIENCE);
    let metrics = catalogue::page(&[("Metrics", METRICS)]);
    // Without the head of a page of their own.
    page.push_str(metrics.find("\n## ").and_then(|at| metrics.get(at..)).unwrap_or_default());
    testbed::harness::generated::check("docs/reference/proxy.md", &page)
}
