//! What the proxy is told at its start, checked as a whole before anything else happens.

mod check;
mod read;
mod suites;

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use runtime::telemetry::Format;

use self::check::Check;
pub use self::check::Problems;
use self::read::text;
use crate::config::{self, Configuration};
use crate::flags::{Args, ProcessArgs};
use crate::identity::HeaderStyle;
use crate::request::glob::Pattern;
use crate::upstream::target::Target;

/// Everything that the proxy was told, checked.
#[derive(Debug)]
pub struct Settings {
    pub(crate) insecure: Option<String>,
    pub(crate) secure: Option<String>,
    pub(crate) endpoints_port: u16,
    pub(crate) upstream: Upstream,
    pub(crate) paths: Paths,
    pub(crate) upgrades: Vec<String>,
    pub(crate) http2: Http2,
    pub(crate) tls: Tls,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) style: Option<HeaderStyle>,
    pub(crate) protected: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) outage_is_503: bool,
    pub(crate) oidc: Option<Oidc>,
    pub(crate) kubernetes: Kubernetes,
    pub(crate) configuration: Configuration,
    pub(crate) limits: ClientLimits,
    pub(crate) workers: usize,
    pub(crate) drain: Duration,
    pub(crate) metrics_address: Option<String>,
    pub(crate) access_log: bool,
    pub(crate) log_format: Format,
    pub(crate) verbosity: u32,
    /// What was given and should be known, one sentence each.
    pub(crate) warnings: Vec<String>,
    /// Every flag with its value, for the log.
    pub(crate) effective: String,
}

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) target: Target,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    pub(crate) host: Option<HeaderValue>,
}

/// Paths that are special.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub(crate) allowed: Vec<Pattern>,
    pub(crate) ignored: Vec<Pattern>,
}

/// How HTTP/2 is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2 {
    pub(crate) enabled: bool,
    pub(crate) streams: u32,
    pub(crate) size: u32,
}

/// How TLS is served.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) pair: Option<(PathBuf, PathBuf)>,
    pub(crate) only_13: bool,
    pub(crate) suites: Option<Vec<rustls::CipherSuite>>,
    pub(crate) reload: Duration,
}

/// Tokens of an identity provider.
#[derive(Clone, Debug)]
pub(crate) struct Oidc {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) groups_claim: String,
    pub(crate) username_claim: String,
    pub(crate) username_prefix: String,
    pub(crate) groups_prefix: String,
    pub(crate) algorithms: Vec<String>,
    pub(crate) ca: Option<PathBuf>,
}

/// The way to the API server, and what is remembered of its answers.
#[derive(Debug)]
pub(crate) struct Kubernetes {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) rate: Option<(f64, u32)>,
    pub(crate) within: Duration,
    pub(crate) tokens: crate::authentication::tokens::Lifetimes,
    pub(crate) decisions: crate::authorization::Lifetimes,
    pub(crate) cache: crate::cache::Limits,
}

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    pub(crate) connections: usize,
    pub(crate) head_bytes: usize,
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) stall: Duration,
}

impl TryFrom<Args> for Settings {
    type Error = Problems;

    fn try_from(args: Args) -> Result<Self, Problems> {
        let effective = format!("{args:?}");
        let mut check = Check::default();
        let Args { listen, tls, authentication, oidc, kubernetes, limits, process, hidden } = args;
        let settings = {
            let check = &mut check;
            let reload = read::tls_settings(check, &tls, &listen);
            let (style, protected, audiences, outage_is_503, client_ca) =
                read::identities(check, authentication);
            let oidc = read::oidc_settings(check, oidc);
            let (paths, upgrades, http2, upstream) = read::ways(check, &listen);
            let addresses = (text(listen.insecure_listen_address), text(listen.secure_listen_address));
            if addresses == (None, None) {
                check.problem(
                    "no listen address provided: set --insecure-listen-address or --secure-listen-address",
                );
            }
            let configuration = match text(listen.config_file) {
                Some(path) => config::load(path.as_ref()).unwrap_or_else(|problems| {
                    problems.iter().for_each(|problem| check.problem(problem));
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
            read::verbosity(check, &hidden);
            Settings {
                endpoints_port: check.number("proxy-endpoints-port", &listen.proxy_endpoints_port),
                upstream,
                paths,
                upgrades,
                http2,
                tls: reload,
                client_ca,
                style,
                protected,
                audiences,
                outage_is_503,
                oidc,
                kubernetes: read::kubernetes_settings(check, kubernetes),
                configuration,
                limits: read::client_limits(check, &limits),
                workers: check.number("workers", &workers),
                drain: check.duration("drain-timeout", &drain_timeout),
                metrics_address: text(metrics_listen_address),
                access_log: check.boolean("access-log", &access_log),
                log_format: log_format.parse().unwrap_or_else(|why: String| {
                    check.problem(format!("--log-format: {why}"));
                    Format::Json
                }),
                verbosity: check.number("v", &hidden.verbosity),
                insecure: addresses.0,
                secure: addresses.1,
                warnings: Vec::new(),
                effective,
            }
        };
        check.finish(settings)
    }
}

#[cfg(test)]
mod tests;
