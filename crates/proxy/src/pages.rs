//! Generates `docs/reference/proxy.md` from the code.

use std::fmt::Write as _;

use clap::Command;
use runtime::metrics::catalog;

use crate::flags::Args;
use crate::metrics::METRICS;
use crate::outcome::Outcome;

const INTRODUCTION: &str = "\
# The authorizing proxy

`outrigger proxy` is a drop-in replacement for kube-rbac-proxy: it authenticates every request, authorizes it with a
SubjectAccessReview, and forwards it to one upstream. A binary or link named `kube-rbac-proxy` takes the same flags without the
subcommand:

```
outrigger proxy --secure-listen-address=0.0.0.0:8443 --upstream=http://127.0.0.1:8081/ \\
  --tls-cert-file=/tls/tls.crt --tls-private-key-file=/tls/tls.key
```

Exit codes: 0 after SIGTERM or SIGINT, 1 for invalid flags or a failure. All invalid flags are reported together, and the proxy does
not start.

Flags follow the parsing rules of kube-rbac-proxy: `--name=value` or `--name value`, underscores instead of hyphens, lists separated
by commas with double quotes, repeated list flags add up. Deprecated logging flags (`--logtostderr` and ten others) are accepted and
have no effect.

This page is generated from the code; a test fails when it is out of date.
";

/// The differences from kube-rbac-proxy v0.21.0 by topic: each one says what Outrigger does, what kube-rbac-proxy does, and why.
const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "Identity headers",
        &[
            "On ignored paths the proxy removes identity headers and `Authorization`; kube-rbac-proxy forwards what the client sent, \
             so that a client can pose as any user.",
            "The configured identity headers and `X-Remote-User`, `-Group`, `-Groups`, `-Uid` and `-Extra-*` are always removed from \
             requests and trailers, also when spelled with underscores; without `--auth-header-fields-enabled` kube-rbac-proxy forwards the client's, so that a client \
             can pose as any user.",
            "A request whose `Connection` header names an identity header is rejected with 400, and the proxy sets its own headers \
             last; kube-rbac-proxy drops the named header after setting it, so that the upstream sees an anonymous request.",
            "A user with a group that contains the group separator is rejected with 403; kube-rbac-proxy forwards the group, which the \
             upstream reads as two.",
            "A request with two `Authorization` headers is rejected with 400; kube-rbac-proxy uses the first one, while the upstream may \
             use the other.",
        ],
    ),
    (
        "Paths, queries and framing",
        &[
            "Encoded dots, slashes and backslashes, `..;`, NUL bytes, invalid escapes and paths that are not UTF-8 are rejected with 400; \
             kube-rbac-proxy authorizes one form of the path and forwards another.",
            "Paths with `//`, `.` or `..` are rejected with 400; kube-rbac-proxy redirects them before authentication, which hides that \
             two parsers disagree about the path.",
            "A query with `;` or an invalid escape is rejected with 400 when rewrites read the query; kube-rbac-proxy ignores such a pair, \
             so that a hidden value reaches the upstream without authorization.",
            "A request with several `Host` headers, or with one that differs from the host in the request target, is rejected with 400; \
             kube-rbac-proxy forwards the latter, although proxy and upstream may use different names.",
            "`CONNECT` is never forwarded; kube-rbac-proxy forwards it when the target is a path.",
            "A head with a length and chunked encoding, several lengths, an encoding other than `chunked`, folded lines, lines without a \
             carriage return or an invalid version is rejected with 400 and the connection is closed; kube-rbac-proxy keeps the \
             connection open after a length with chunked encoding, folded lines and bare line feeds, which allows request smuggling.",
            "A request target with a fragment or with bytes that are not ASCII is rejected with 400; kube-rbac-proxy escapes and forwards \
             it, so that authorized and forwarded target differ.",
            "Only protocols in `--upgrade-protocols` (websocket by default) can be upgraded to, never on ignored paths, and an upgrade \
             request with a body is rejected with 400; kube-rbac-proxy tunnels every upgrade including h2c, and authorizes none of the \
             requests inside the tunnel.",
            "Interim responses (1xx) other than 100 and 101 are not forwarded; kube-rbac-proxy forwards them.",
        ],
    ),
    (
        "Authentication and authorization",
        &[
            "Rejected tokens are cached for `--token-error-cache-ttl` in a cache of their own, and one client address can use at most \
             half of the concurrent TokenReviews; kube-rbac-proxy caches no rejected token, so that a flood of them delays every \
             client.",
            "Requests to the API server have no rate limit unless `--kube-api-qps` is set; kube-rbac-proxy has a hidden limit of 5 \
             requests per second, which slows down clients whose result is not cached.",
            "All caches are bounded in entries and bytes, identical reviews are coalesced and every review has a deadline \
             (`--kube-api-timeout`); the token cache of kube-rbac-proxy is unbounded, and its SubjectAccessReviews are neither coalesced \
             nor limited in time, so that clients can exhaust its memory.",
            "A TokenReview status without audiences is rejected when `--auth-token-audiences` is set, and a warning at startup recommends \
             the flag for listeners without TLS; kube-rbac-proxy does not warn that tokens for the API server cross the network in clear \
             text. See [Audiences of nodes](#audiences-of-nodes).",
            "`--authentication-outage-status=503` answers with 503 while the API server is unavailable, so that clients retry; the \
             default is 401, as in kube-rbac-proxy.",
            "`static[].user.groups` requires membership in one of the groups; kube-rbac-proxy ignores the field, so that the rule allows \
             every user.",
            "A warning at startup states that without `resourceAttributes` every authenticated user can read `/api/*` and other paths of \
             the `system:discovery` ClusterRole; kube-rbac-proxy allows the same requests without a warning.",
            "OpenID Connect tokens with distributed claims are rejected, and verified tokens are cached until they expire, at most for \
             `--token-cache-ttl`; kube-rbac-proxy follows distributed claims, so that a token makes it fetch \
             other documents for its groups.",
        ],
    ),
    (
        "Configuration and certificates",
        &[
            "An unknown key in `--config-file` causes a warning that suggests the likely key; kube-rbac-proxy ignores it, so that a \
             misspelled key changes the authorization unnoticed.",
            "`authorization.subresourceFromHeader` is an extension; kube-rbac-proxy ignores the key.",
            "A configuration without `authorization` authorizes every request by its path; kube-rbac-proxy crashes.",
            "YAML scalars keep their source text, because names like `on` or `1e3` are valid in Kubernetes; kube-rbac-proxy converts them \
             by the rules of YAML 1.1.",
            "A template other than `{{ .Value }}` is rejected at startup; kube-rbac-proxy starts and fails every rewritten request.",
            "Certificates and keys, including those for the upstream, are reloaded every minute, and an invalid or mismatched pair leaves \
             the previous one in use with a log message and a metric; kube-rbac-proxy exits on a mismatched pair and loads upstream \
             certificates only once.",
        ],
    ),
    (
        "Connections",
        &[
            "Connections above `--max-connections` get no response until another one is closed, except on ignored paths; kube-rbac-proxy \
             has no limit, so that clients can exhaust its memory. See [Probes during overload](#probes-during-overload).",
            "Clients have limits for headers, idle time, stalls, handshakes and connections (`--header-timeout`, `--idle-timeout`, \
             `--stall-timeout`, `--max-header-bytes`, `--max-connections`); kube-rbac-proxy has no timeouts for these, so that slow \
             clients can exhaust it.",
            "Draining ends after `--drain-timeout`; kube-rbac-proxy waits without a limit, so that one open connection can delay its exit.",
            "Idle upstream connections are closed after 50 s, because the sidecar closes them after 60 s; kube-rbac-proxy keeps them for \
             90 s, so that a request can hit a closed connection.",
            "Above 32 concurrent requests per worker a request waits for a free upstream connection, for 10 ms when none becomes free and \
             for at most 100 ms, which saves memory; kube-rbac-proxy opens a connection for every concurrent request.",
            "The proxy does not add `Accept-Encoding: gzip` to requests; kube-rbac-proxy adds it, so that the upstream compresses for a \
             client that did not ask for it.",
            "`HTTP_PROXY` is ignored for the upstream; kube-rbac-proxy honors it, so that the environment can redirect requests.",
            "`--upstream-host-header` pins the `Host` sent to the upstream; by default it is the client's, as in kube-rbac-proxy.",
            "`--upstream=unix:///PATH` forwards to a Unix socket; kube-rbac-proxy accepts the URL and answers every request with 502.",
            "The process is not dumpable, so that others of the same user cannot read its memory in `/proc`; kube-rbac-proxy leaves its keys \
             and tokens readable.",
            "Ignored paths have no data race, which safe Rust excludes; kube-rbac-proxy has one.",
        ],
    ),
];

const UNCHANGED: &str = "
Cookies and CORS headers of the upstream are forwarded unchanged, as in kube-rbac-proxy.
";

/// An upstream behind a Unix socket.
const UNIX_SOCKET: &str = "
## A Unix socket as upstream

```
outrigger proxy --upstream=unix:///run/sei-sidecar/api.sock ...
```

- The proxy speaks HTTP/1.1 over the socket, with the same connection pool, timeouts, tunnels, error pages and metrics as over TCP. A
  missing socket, or one without a listener, is answered with 502; the next request connects again.
- Everything after `unix://` is the path of the socket: absolute, at most 107 bytes, without `?`, `#` and `%`. Request paths have no prefix.
- `Host` is the client's, as over TCP, or `--upstream-host-header`. A request without a host gets `localhost`.
- The user of the proxy needs the permission to write to the socket, and to search its directories. Who else can reach the socket can
  pose as any user, so its directory must be visible to proxy and upstream only.
- `--upstream-force-h2c` is rejected, and `--upstream-ca-file` has no effect.
";

/// Authorization by a header that names the subresource.
const SUBRESOURCE: &str = "
## A subresource from a header

`authorization.subresourceFromHeader` in `--config-file` is an extension of kube-rbac-proxy's format. With

```yaml
authorization:
  resourceAttributes:
    apiGroup: sei.io
    resource: seinodetasks
    namespace: nodes
    name: node-0
  subresourceFromHeader: X-Sei-Task-Kind
```

a POST request with `X-Sei-Task-Kind: restart` needs `create seinodetasks/restart`, and one without the header `create seinodetasks`.
In RBAC the second permission does not include the first one, and there is no pattern for all kinds of one resource: a role lists each
subresource.

- The value is a DNS label: lower-case letters, digits and hyphens, at most 63. A malformed, empty or repeated header, one that is
  spelled with underscores, and one that `Connection` names are answered with 400 and `bad_subresource_header`. A trailer of that name is
  removed.
- On other methods and on ignored paths the header has no effect on authorization, and is forwarded.
- The upstream must reject a header that does not match the request: the proxy does not read the body.
- Decisions are cached for each subresource.
- It needs `resourceAttributes` without `subresource`, and cannot be combined with `rewrites`. The name must not be that of an identity
  header or of a header with another meaning in HTTP.
- A rule in `static` with a `subresource` matches this subresource only; without one it matches every request, as with every empty field.
";

/// How probes are served during overload.
const PROBES: &str = "
## Probes during overload

Requests to `--ignore-paths` need no review, and are answered whatever other clients do:

- Connections above `--max-connections` are accepted too. A request to an ignored path is answered, with `Connection: close`; other
  requests wait until one of the regular connections is closed.
- At most 256 connections are open above the limit. For a newer one the oldest of them is closed, so that clients that connect and send
  nothing, or never finish, make room for one that sends its request at once, as the kubelet does. The metric
  `outrigger_proxy_overflow_connections_total` counts both.
- Without free file descriptors not even a probe could be accepted. The proxy raises its limit to the maximum, keeps a quarter for
  connections to the upstream, and lowers `--max-connections` with a warning if the rest is too small.
";

/// Which tokens the proxies of nodes accept.
const AUDIENCE: &str = "
## Audiences of nodes

The operator starts the proxy of a node with `--auth-token-audiences=sidecar.sei.io/NAMESPACE/NODE` and requests its own tokens for
that node with this audience. No other proxy and no API server accepts such a token: a captured one can only call the same node until it
expires.

- Other callers, listed in `--sidecar-clients` of the operator, need a token for each node that they call:
  `kubectl create token NAME --audience sidecar.sei.io/NAMESPACE/NODE`, or a projected token.
- The pod of a node that was created by another operator, or by a previous version, is not replaced before its spec is edited. Until
  then the operator reaches it only with `--legacy-sidecar-token-file`.
";

#[test]
fn documentation_matches_the_code() -> testbed::Result<()> {
    let mut page = String::from(INTRODUCTION);
    let mut heading = None;
    let command = <Args as clap::Args>::augment_args(Command::new("proxy"));
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let _ = write!(
                page,
                "\n## {}\n\n| flag | default | description |\n|---|---|---|\n",
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
    page.push_str(
        "\n## Request outcomes\n\nThe labels of `outrigger_proxy_requests_total` and the fields of the access log.\n\n\
         | status | decision | reason |\n|---|---|---|\n",
    );
    for outcome in Outcome::ALL {
        let is_forwarded = matches!(outcome, Outcome::Allowed | Outcome::Ignored);
        let status =
            if is_forwarded { "the upstream's".to_owned() } else { outcome.status().as_u16().to_string() };
        let _ = writeln!(page, "| {status} | `{}` | `{}` |", outcome.decision(), outcome.reason());
    }
    page.push_str("\n## Differences from kube-rbac-proxy v0.21.0\n");
    for (topic, differences) in DIFFERENCES {
        let _ = write!(page, "\n### {topic}\n\n");
        for difference in *differences {
            let _ = writeln!(page, "- {difference}");
        }
    }
    page.push_str(UNCHANGED);
    for section in [UNIX_SOCKET, SUBRESOURCE, PROBES, AUDIENCE] {
        page.push_str(section);
    }
    let metrics = catalog::page(&[("Metrics", METRICS)]);
    // Without the head of a separate page.
    page.push_str(metrics.find("\n## ").and_then(|at| metrics.get(at..)).unwrap_or_default());
    testbed::harness::generated::check("docs/reference/proxy.md", &page)
}
