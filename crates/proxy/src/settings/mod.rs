//! Settings of the proxy, validated as a whole at startup.

mod cipher_suites;
mod read;
mod validator;

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use runtime::telemetry::Format;

use self::read::non_empty;
pub use self::validator::InvalidSettings;
use self::validator::Validator;
use crate::config::{self, Configuration};
use crate::flags::{Args, ProcessArgs};
use crate::identity::IdentityHeaders;
use crate::request::glob::Pattern;
use crate::upstream::url::UpstreamUrl;

/// The validated settings.
#[derive(Debug)]
pub struct Settings {
    pub(crate) insecure_address: Option<String>,
    pub(crate) secure_address: Option<String>,
    pub(crate) endpoints_port: u16,
    pub(crate) upstream: UpstreamSettings,
    pub(crate) paths: PathPatterns,
    pub(crate) upgrades: Vec<String>,
    pub(crate) http2: Http2Settings,
    pub(crate) tls: TlsSettings,
    pub(crate) authentication: AuthenticationSettings,
    pub(crate) oidc: Option<OidcSettings>,
    pub(crate) kubernetes: KubernetesSettings,
    pub(crate) configuration: Configuration,
    pub(crate) limits: ClientLimits,
    pub(crate) workers: usize,
    pub(crate) drain_timeout: Duration,
    pub(crate) metrics_address: Option<String>,
    pub(crate) access_log: bool,
    pub(crate) log_format: Format,
    pub(crate) verbosity: u32,
    /// Risky or ineffective settings, one sentence each.
    pub(crate) warnings: Vec<String>,
    /// Every flag with its value, for the log.
    pub(crate) effective: String,
}

/// The upstream.
#[derive(Debug)]
pub(crate) struct UpstreamSettings {
    pub(crate) url: UpstreamUrl,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client_key_pair: Option<(PathBuf, PathBuf)>,
    pub(crate) host_override: Option<HeaderValue>,
}

/// Patterns of allowed and of ignored paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathPatterns {
    pub(crate) allowed: Vec<Pattern>,
    pub(crate) ignored: Vec<Pattern>,
}

/// Server-side HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2Settings {
    pub(crate) enabled: bool,
    pub(crate) streams: u32,
    pub(crate) size: u32,
}

/// Server-side TLS.
#[derive(Debug)]
pub(crate) struct TlsSettings {
    pub(crate) key_pair: Option<(PathBuf, PathBuf)>,
    pub(crate) only_tls13: bool,
    pub(crate) suites: Option<Vec<rustls::CipherSuite>>,
    pub(crate) reload_interval: Duration,
}

/// Authentication of clients.
#[derive(Debug)]
pub(crate) struct AuthenticationSettings {
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) identity_headers: Option<IdentityHeaders>,
    /// Header names that only the proxy may set, in addition to `X-Remote-*`.
    pub(crate) protected: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) outage_is_503: bool,
}

/// OpenID Connect.
#[derive(Clone, Debug)]
pub(crate) struct OidcSettings {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) groups_claim: String,
    pub(crate) username_claim: String,
    pub(crate) username_prefix: String,
    pub(crate) groups_prefix: String,
    pub(crate) algorithms: Vec<String>,
    pub(crate) ca: Option<PathBuf>,
}

/// API server access and caches.
#[derive(Debug)]
pub(crate) struct KubernetesSettings {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) rate: Option<(f64, u32)>,
    pub(crate) timeout: Duration,
    pub(crate) token_ttls: crate::authentication::token_review::TokenTtls,
    pub(crate) decision_ttls: crate::authorization::DecisionTtls,
    pub(crate) cache: crate::cache::Limits,
}

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    pub(crate) max_connections: usize,
    pub(crate) max_header_bytes: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) stall_timeout: Duration,
}

impl TryFrom<Args> for Settings {
    type Error = InvalidSettings;

    fn try_from(args: Args) -> Result<Self, InvalidSettings> {
        let effective = format!("{args:?}");
        let mut validator = Validator::default();
        let Args { listen, tls, authentication, oidc, kubernetes, limits, process, hidden } = args;
        let settings = {
            let validator = &mut validator;
            let tls = read::tls_settings(validator, &tls, &listen);
            let authentication = read::authentication_settings(validator, authentication);
            let oidc = read::oidc_settings(validator, oidc);
            let (paths, upgrades, http2, upstream) = read::routing_settings(validator, &listen);
            let addresses =
                (non_empty(listen.insecure_listen_address), non_empty(listen.secure_listen_address));
            if addresses == (None, None) {
                validator.error(
                    "no listen address provided: set --insecure-listen-address or --secure-listen-address",
                );
            }
            let configuration = match non_empty(listen.config_file) {
                Some(path) => config::load(path.as_ref()).unwrap_or_else(|errors| {
                    errors.iter().for_each(|error| validator.error(error));
                    Configuration::default()
                }),
                None => Configuration::default(),
            };
            let ProcessArgs {
                workers,
                drain_timeout,
                metrics_listen_address,
                access_log,
                log_format,
                version: _,
            } = process;
            read::warn_ignored_flags(validator, &hidden);
            Settings {
                endpoints_port: validator.number("proxy-endpoints-port", &listen.proxy_endpoints_port),
                upstream,
                paths,
                upgrades,
                http2,
                tls,
                authentication,
                oidc,
                kubernetes: read::kubernetes_settings(validator, kubernetes),
                configuration,
                limits: read::client_limits(validator, &limits),
                workers: validator.number("workers", &workers),
                drain_timeout: validator.duration("drain-timeout", &drain_timeout),
                metrics_address: non_empty(metrics_listen_address),
                access_log: validator.boolean("access-log", &access_log),
                log_format: log_format.parse().unwrap_or_else(|reason: String| {
                    validator.error(format!("--log-format: {reason}"));
                    Format::Json
                }),
                verbosity: validator.number("v", &hidden.verbosity),
                insecure_address: addresses.0,
                secure_address: addresses.1,
                warnings: Vec::new(),
                effective,
            }
        };
        validator.finish(settings)
    }
}

#[cfg(test)]
mod tests;
