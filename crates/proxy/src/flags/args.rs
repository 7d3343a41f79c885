//! The flags. Values are taken as text and checked together, so that somebody who has three of them wrong is told three times at
//! once.

use clap::ArgAction;

/// Settings of the proxy.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) authentication: AuthenticationArgs,
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    #[command(flatten)]
    pub(crate) kubernetes: KubernetesArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    pub(crate) hidden: HiddenArgs,
}

/// Where it listens and where it forwards to.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Listeners, upstream and paths")]
pub(crate) struct ListenArgs {
    /// Address of the plain HTTP listener. Tokens cross the network in clear text here: give callers tokens of an audience of
    /// their own (--auth-token-audiences)
    #[arg(long, value_name = "HOST:PORT", default_value = "", allow_hyphen_values = true)]
    pub(crate) insecure_listen_address: String,
    /// Address of the HTTPS listener
    #[arg(long, value_name = "HOST:PORT", default_value = "", allow_hyphen_values = true)]
    pub(crate) secure_listen_address: String,
    /// Port on the secure address's host that serves /healthz, /readyz and /metrics over HTTPS; 0 for none
    #[arg(long, value_name = "PORT", default_value = "0", allow_hyphen_values = true)]
    pub(crate) proxy_endpoints_port: String,
    /// Where requests go; its path and query are put before theirs
    #[arg(long, value_name = "URL", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream: String,
    /// Speak HTTP/2 in clear text to the upstream, also if its URL says https
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) upstream_force_h2c: String,
    /// Trust only these authorities for the upstream. HTTP/2 to it is off then
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_ca_file: String,
    /// Client certificate for the upstream; only together with --upstream-ca-file
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_client_cert_file: String,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_client_key_file: String,
    /// Send this as Host to the upstream, instead of what the client sent
    #[arg(long, value_name = "HOST", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_host_header: String,
    /// The authorization configuration
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) config_file: String,
    /// Patterns of paths that are served at all; everything else is 404. Not together with --ignore-paths
    #[arg(long, value_name = "PATTERNS", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) allow_paths: Vec<String>,
    /// Patterns of paths that are forwarded without authentication and authorization
    #[arg(long, value_name = "PATTERNS", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) ignore_paths: Vec<String>,
    /// Protocols that a client may switch to; others are ignored. Never h2c
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) upgrade_protocols: Vec<String>,
    /// Serve HTTP/1.1 only
    #[arg(long = "http2-disable", num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) http2_disable: String,
    /// Streams of one HTTP/2 connection at once
    #[arg(
        long = "http2-max-concurrent-streams",
        value_name = "COUNT",
        default_value = "100",
        allow_hyphen_values = true
    )]
    pub(crate) http2_max_concurrent_streams: String,
    /// Largest HTTP/2 frame, and the window of a stream
    #[arg(
        long = "http2-max-size",
        value_name = "BYTES",
        default_value = "262144",
        allow_hyphen_values = true
    )]
    pub(crate) http2_max_size: String,
}

/// How TLS is served.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Serving TLS")]
pub(crate) struct TlsArgs {
    /// The certificate that is served, with its chain; a self-signed one is made when there is none
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) tls_cert_file: String,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) tls_private_key_file: String,
    /// Lowest version of TLS: VersionTLS12 or VersionTLS13 (VersionTLS10 and VersionTLS11 are taken for 12)
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", allow_hyphen_values = true)]
    pub(crate) tls_min_version: String,
    /// Cipher suites of TLS 1.2, by their IANA names; else all that are safe
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) tls_cipher_suites: Vec<String>,
    /// Time between two looks at certificates on disk
    #[arg(long, value_name = "DURATION", default_value = "1m", allow_hyphen_values = true)]
    pub(crate) tls_reload_interval: String,
}

/// Who is asking.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AuthenticationArgs {
    /// Authorities whose client certificates name users; on the HTTPS listener only
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) client_ca_file: String,
    /// Tell the upstream who is asking, by headers
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) auth_header_fields_enabled: String,
    /// Header for the user
    #[arg(long, value_name = "NAME", default_value = "x-remote-user", allow_hyphen_values = true)]
    pub(crate) auth_header_user_field_name: String,
    /// Header for the groups
    #[arg(long, value_name = "NAME", default_value = "x-remote-groups", allow_hyphen_values = true)]
    pub(crate) auth_header_groups_field_name: String,
    /// What stands between two groups
    #[arg(long, value_name = "TEXT", default_value = "|", allow_hyphen_values = true)]
    pub(crate) auth_header_groups_field_separator: String,
    /// Audiences that a token must be for; with one of its own, a token that was captured here is worth nothing elsewhere
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) auth_token_audiences: Vec<String>,
    /// What is answered while the API server cannot be asked about a token: 401 as ever, or 503 with Retry-After
    #[arg(long, value_name = "STATUS", default_value = "401", allow_hyphen_values = true)]
    pub(crate) authentication_outage_status: String,
}

/// Tokens of an identity provider.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "OpenID Connect, instead of the API server")]
pub(crate) struct OidcArgs {
    /// The issuer; tokens are verified here then, and neither TokenReviews nor client certificates are used
    #[arg(long, value_name = "URL", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_issuer: String,
    /// Audience of its tokens
    #[arg(long = "oidc-clientID", value_name = "ID", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_client_id: String,
    /// Claim that holds the groups
    #[arg(long, value_name = "CLAIM", default_value = "groups", allow_hyphen_values = true)]
    pub(crate) oidc_groups_claim: String,
    /// Claim that holds the user
    #[arg(long, value_name = "CLAIM", default_value = "email", allow_hyphen_values = true)]
    pub(crate) oidc_username_claim: String,
    /// Put before each user
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_username_prefix: String,
    /// Put before each group
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_groups_prefix: String,
    /// Signatures that are accepted, one per flag: RS, ES or PS with 256, 384 or 512
    #[arg(long, value_name = "NAME", action = ArgAction::Append, default_value = "RS256", allow_hyphen_values = true)]
    pub(crate) oidc_sign_alg: Vec<String>,
    /// Authorities of the issuer's certificate; else those of the system
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_ca_file: String,
}

/// The way to the API server, and what is remembered of its answers.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct KubernetesArgs {
    /// A kubeconfig; else the pod's service account
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) kubeconfig: String,
    /// Requests a second to the API server; 0 for no limit. Needs --kube-api-burst
    #[arg(long, value_name = "RATE", default_value = "0", allow_hyphen_values = true)]
    pub(crate) kube_api_qps: String,
    /// How many of them may come at once
    #[arg(long, value_name = "COUNT", default_value = "0", allow_hyphen_values = true)]
    pub(crate) kube_api_burst: String,
    /// How long the API server may take for an answer, repeats included
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(crate) kube_api_timeout: String,
    /// How long the owner of a token is remembered
    #[arg(long, value_name = "DURATION", default_value = "2m", allow_hyphen_values = true)]
    pub(crate) token_cache_ttl: String,
    /// How long it is remembered that a token is bad
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(crate) token_error_cache_ttl: String,
    /// How long it is remembered that something is allowed
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true)]
    pub(crate) authorization_allow_ttl: String,
    /// How long it is remembered that something is denied
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    pub(crate) authorization_deny_ttl: String,
    /// Entries of each cache at most
    #[arg(long, value_name = "COUNT", default_value = "16384", allow_hyphen_values = true)]
    pub(crate) cache_max_entries: String,
    /// Bytes of each cache at most
    #[arg(long, value_name = "BYTES", default_value = "16777216", allow_hyphen_values = true)]
    pub(crate) cache_max_bytes: String,
}

/// What clients may take.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits for clients")]
pub(crate) struct LimitArgs {
    /// Connections at once; more wait until one is closed
    #[arg(long, value_name = "COUNT", default_value = "16384", allow_hyphen_values = true)]
    pub(crate) max_connections: String,
    /// Bytes of a request's head at most
    #[arg(long, value_name = "BYTES", default_value = "32768", allow_hyphen_values = true)]
    pub(crate) max_header_bytes: String,
    /// How long a client may take for the head of a request
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(crate) header_timeout: String,
    /// How long a connection may be without a request
    #[arg(long, value_name = "DURATION", default_value = "2m", allow_hyphen_values = true)]
    pub(crate) idle_timeout: String,
    /// How long a client may neither read nor send what is waited for
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true)]
    pub(crate) stall_timeout: String,
}

/// How this process lives.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "This process")]
pub(crate) struct ProcessArgs {
    /// Threads that serve; 0 for one per processor
    #[arg(long, value_name = "COUNT", default_value = "0", allow_hyphen_values = true)]
    pub(crate) workers: String,
    /// How long requests under way may take after a signal to end
    #[arg(long, value_name = "DURATION", default_value = "20s", allow_hyphen_values = true)]
    pub(crate) drain_timeout: String,
    /// Address of metrics and health over plain HTTP; none when empty. Use one of 127.0.0.1, or keep others away from it
    #[arg(long, value_name = "HOST:PORT", default_value = "", allow_hyphen_values = true)]
    pub(crate) metrics_listen_address: String,
    /// Log every decision as one line of JSON: who, what, how it ended; never a token
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) access_log: String,
    /// How log lines look: json or pretty
    #[arg(long, value_name = "FORMAT", default_value = "json", allow_hyphen_values = true)]
    pub(crate) log_format: String,
    /// Print the version and end; raw for the long form
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "FORM", default_missing_value = "true")]
    pub(crate) version: Option<String>,
}

/// Flags that manifests pass and nobody needs to be shown.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HiddenArgs {
    /// How much is logged: 0 for what matters, 2 for refusals, 4 and more for everything
    #[arg(
        short = 'v',
        long = "v",
        hide = true,
        value_name = "LEVEL",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) verbosity: String,
    /// Taken and not used: levels by file
    #[arg(long, hide = true, value_name = "LEVELS", allow_hyphen_values = true)]
    pub(crate) vmodule: Option<String>,
    /// Taken and not used: lines are written at once
    #[arg(long, hide = true, value_name = "DURATION", default_value = "5s", allow_hyphen_values = true)]
    pub(crate) log_flush_frequency: String,
    #[command(flatten)]
    pub(crate) dead: super::dead::DeadArgs,
}

impl Args {
    /// The form in which the version is wanted, if it is: `true`, `raw`, or a version to be reported.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.process.version.as_deref().filter(|form| *form != "false")
    }
}
