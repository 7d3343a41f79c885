//! The flags. Values are strings and validated together, so that all invalid flags are reported together.

use clap::ArgAction;

/// Flags of the proxy.
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

/// Listeners, upstream and paths.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Listeners, upstream and paths")]
pub(crate) struct ListenArgs {
    /// Address of the plain HTTP listener. Tokens cross the network in clear text: use tokens with a
    /// dedicated audience (--auth-token-audiences)
    #[arg(long, value_name = "HOST:PORT", default_value = "", allow_hyphen_values = true)]
    pub(crate) insecure_listen_address: String,
    /// Address of the HTTPS listener
    #[arg(long, value_name = "HOST:PORT", default_value = "", allow_hyphen_values = true)]
    pub(crate) secure_listen_address: String,
    /// Port on the host of --secure-listen-address that serves /healthz, /readyz and /metrics over HTTPS; 0
    /// disables it
    #[arg(long, value_name = "PORT", default_value = "0", allow_hyphen_values = true)]
    pub(crate) proxy_endpoints_port: String,
    /// URL of the upstream. Its path and query are prepended to those of each request. unix:///PATH is a Unix socket,
    /// over which HTTP/1.1 is spoken
    #[arg(long, value_name = "URL", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream: String,
    /// Use HTTP/2 without TLS (h2c) to the upstream, even for an https URL
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) upstream_force_h2c: String,
    /// CA certificates of the upstream, instead of the system's. Disables HTTP/2 to the upstream
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_ca_file: String,
    /// Client certificate for the upstream; requires --upstream-ca-file
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_client_cert_file: String,
    /// Private key of --upstream-client-cert-file
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_client_key_file: String,
    /// Host header sent to the upstream, instead of the client's
    #[arg(long, value_name = "HOST", default_value = "", allow_hyphen_values = true)]
    pub(crate) upstream_host_header: String,
    /// Authorization configuration file
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) config_file: String,
    /// Path patterns that are served; other paths are answered with 404. Mutually exclusive with
    /// --ignore-paths
    #[arg(long, value_name = "PATTERNS", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) allow_paths: Vec<String>,
    /// Path patterns that are forwarded without authentication and authorization
    #[arg(long, value_name = "PATTERNS", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) ignore_paths: Vec<String>,
    /// Protocols that a client may upgrade to (default websocket); other upgrade requests are ignored. h2c is
    /// not allowed
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) upgrade_protocols: Vec<String>,
    /// Disable HTTP/2
    #[arg(long = "http2-disable", num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) http2_disable: String,
    /// Maximum concurrent streams per HTTP/2 connection
    #[arg(
        long = "http2-max-concurrent-streams",
        value_name = "COUNT",
        default_value = "100",
        allow_hyphen_values = true
    )]
    pub(crate) http2_max_concurrent_streams: String,
    /// Maximum HTTP/2 frame size, and flow-control window of a stream
    #[arg(
        long = "http2-max-size",
        value_name = "BYTES",
        default_value = "262144",
        allow_hyphen_values = true
    )]
    pub(crate) http2_max_size: String,
}

/// Serving TLS.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Serving TLS")]
pub(crate) struct TlsArgs {
    /// Serving certificate with its chain; without it a self-signed certificate is generated
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) tls_cert_file: String,
    /// Private key of --tls-cert-file
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) tls_private_key_file: String,
    /// Minimum TLS version: VersionTLS12 or VersionTLS13 (VersionTLS10 and VersionTLS11 are treated as
    /// VersionTLS12)
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", allow_hyphen_values = true)]
    pub(crate) tls_min_version: String,
    /// TLS 1.2 cipher suites by IANA name; all secure ones by default
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) tls_cipher_suites: Vec<String>,
    /// Interval at which certificate files are checked for changes
    #[arg(long, value_name = "DURATION", default_value = "1m", allow_hyphen_values = true)]
    pub(crate) tls_reload_interval: String,
}

/// Authentication.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AuthenticationArgs {
    /// CA certificates for client certificates on the HTTPS listener
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) client_ca_file: String,
    /// Send the identity of the user to the upstream in headers
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) auth_header_fields_enabled: String,
    /// Header that contains the user name
    #[arg(long, value_name = "NAME", default_value = "x-remote-user", allow_hyphen_values = true)]
    pub(crate) auth_header_user_field_name: String,
    /// Header that contains the groups
    #[arg(long, value_name = "NAME", default_value = "x-remote-groups", allow_hyphen_values = true)]
    pub(crate) auth_header_groups_field_name: String,
    /// Separator between groups
    #[arg(long, value_name = "TEXT", default_value = "|", allow_hyphen_values = true)]
    pub(crate) auth_header_groups_field_separator: String,
    /// Accepted token audiences. A token with a dedicated audience is useless elsewhere if it is captured
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) auth_token_audiences: Vec<String>,
    /// Status when a token cannot be reviewed because the API server is unavailable: 401 as kube-rbac-proxy,
    /// or 503 with Retry-After
    #[arg(long, value_name = "STATUS", default_value = "401", allow_hyphen_values = true)]
    pub(crate) authentication_outage_status: String,
}

/// OpenID Connect.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "OpenID Connect instead of TokenReview")]
pub(crate) struct OidcArgs {
    /// Issuer URL. Tokens are verified locally then, and neither TokenReviews nor client certificates are
    /// used
    #[arg(long, value_name = "URL", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_issuer: String,
    /// Expected audience of the tokens
    #[arg(long = "oidc-clientID", value_name = "ID", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_client_id: String,
    /// Claim that contains the groups
    #[arg(long, value_name = "CLAIM", default_value = "groups", allow_hyphen_values = true)]
    pub(crate) oidc_groups_claim: String,
    /// Claim that contains the user name
    #[arg(long, value_name = "CLAIM", default_value = "email", allow_hyphen_values = true)]
    pub(crate) oidc_username_claim: String,
    /// Prefix of user names
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_username_prefix: String,
    /// Prefix of groups
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_groups_prefix: String,
    /// Accepted signing algorithm, repeatable: RS, ES or PS with 256, 384 or 512
    #[arg(long, value_name = "NAME", action = ArgAction::Append, default_value = "RS256", allow_hyphen_values = true)]
    pub(crate) oidc_sign_alg: Vec<String>,
    /// CA certificates of the issuer, instead of the system's
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) oidc_ca_file: String,
}

/// API server access and caches.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct KubernetesArgs {
    /// Kubeconfig file; by default the service account of the pod is used
    #[arg(long, value_name = "FILE", default_value = "", allow_hyphen_values = true)]
    pub(crate) kubeconfig: String,
    /// Maximum requests per second to the API server; 0 disables the limit. Requires --kube-api-burst
    #[arg(long, value_name = "RATE", default_value = "0", allow_hyphen_values = true)]
    pub(crate) kube_api_qps: String,
    /// Burst of requests to the API server above --kube-api-qps
    #[arg(long, value_name = "COUNT", default_value = "0", allow_hyphen_values = true)]
    pub(crate) kube_api_burst: String,
    /// Deadline of a review by the API server, retries included
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(crate) kube_api_timeout: String,
    /// Cache lifetime of authenticated tokens
    #[arg(long, value_name = "DURATION", default_value = "2m", allow_hyphen_values = true)]
    pub(crate) token_cache_ttl: String,
    /// Cache lifetime of rejected tokens
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(crate) token_error_cache_ttl: String,
    /// Cache lifetime of allowed requests
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true)]
    pub(crate) authorization_allow_ttl: String,
    /// Cache lifetime of denied requests
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    pub(crate) authorization_deny_ttl: String,
    /// Maximum entries per cache
    #[arg(long, value_name = "COUNT", default_value = "16384", allow_hyphen_values = true)]
    pub(crate) cache_max_entries: String,
    /// Maximum size of each cache
    #[arg(long, value_name = "BYTES", default_value = "16777216", allow_hyphen_values = true)]
    pub(crate) cache_max_bytes: String,
}

/// Limits for clients.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Client limits")]
pub(crate) struct LimitArgs {
    /// Maximum client connections. Of further ones the newest 256 are accepted too: requests to --ignore-paths are answered,
    /// so that probes never wait, and others wait until a connection is closed
    #[arg(long, value_name = "COUNT", default_value = "16384", allow_hyphen_values = true)]
    pub(crate) max_connections: String,
    /// Maximum size of request headers
    #[arg(long, value_name = "BYTES", default_value = "32768", allow_hyphen_values = true)]
    pub(crate) max_header_bytes: String,
    /// Deadline for a client to send request headers
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(crate) header_timeout: String,
    /// Maximum time a connection may be idle
    #[arg(long, value_name = "DURATION", default_value = "2m", allow_hyphen_values = true)]
    pub(crate) idle_timeout: String,
    /// Maximum time a client may neither read the response nor send its body
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true)]
    pub(crate) stall_timeout: String,
}

/// The process.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub(crate) struct ProcessArgs {
    /// Worker threads; 0 means one per CPU, at most 4
    #[arg(long, value_name = "COUNT", default_value = "0", allow_hyphen_values = true)]
    pub(crate) workers: String,
    /// Deadline for requests in flight after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "20s", allow_hyphen_values = true)]
    pub(crate) drain_timeout: String,
    /// Address of the metrics and health endpoints over plain HTTP; empty disables them. Bind it to 127.0.0.1
    /// or restrict access to it
    #[arg(long, value_name = "HOST:PORT", default_value = "", allow_hyphen_values = true)]
    pub(crate) metrics_listen_address: String,
    /// Log every request as one JSON line with user, path and outcome; never a token
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    pub(crate) access_log: String,
    /// Log format: json or pretty
    #[arg(long, value_name = "FORMAT", default_value = "json", allow_hyphen_values = true)]
    pub(crate) log_format: String,
    /// Print the version and exit; `raw` prints the long form
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "FORM", default_missing_value = "true")]
    pub(crate) version: Option<String>,
}

/// Flags that manifests pass, hidden from the help.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HiddenArgs {
    /// Log verbosity: 0 for important events, 2 for rejected requests, 4 and above for everything
    #[arg(
        short = 'v',
        long = "v",
        hide = true,
        value_name = "LEVEL",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) verbosity: String,
    /// Accepted without effect: log levels by file
    #[arg(long, hide = true, value_name = "LEVELS", allow_hyphen_values = true)]
    pub(crate) vmodule: Option<String>,
    /// Accepted without effect: log lines are written immediately
    #[arg(long, hide = true, value_name = "DURATION", default_value = "5s", allow_hyphen_values = true)]
    pub(crate) log_flush_frequency: String,
    #[command(flatten)]
    pub(crate) deprecated: super::deprecated::DeprecatedArgs,
}

impl Args {
    /// Returns the requested version format, if any: `true`, `raw`, or a version to report.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.process.version.as_deref().filter(|format| *format != "false")
    }
}
