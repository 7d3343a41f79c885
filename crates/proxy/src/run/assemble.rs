//! Builds the components of the process from the settings.

use std::sync::Arc;

use http::HeaderValue;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::metrics::Metrics;
use rustls::RootCertStore;
use tokio::runtime::Handle as Runtime;

use super::{Error, system};
use crate::authentication::TokenAuthenticator;
use crate::authentication::oidc::OidcAuthenticator;
use crate::authentication::token_review::TokenReviewer;
use crate::authorization::Authorizer;
use crate::cache::HmacKey;
use crate::metrics::ProxyMetrics;
use crate::request::protected::ProtectedHeaders;
use crate::reviews::{RateLimiter, ReviewClient};
use crate::serve::access_control::AccessControl;
use crate::serve::endpoints::Endpoints;
use crate::serve::listener::Listener;
use crate::serve::rate_limited_log::RateLimitedLog;
use crate::serve::shutdown::Shutdown;
use crate::serve::worker::{Purpose, WorkerConfig};
use crate::settings::{KubernetesSettings, OidcSettings, Settings};
use crate::tls::reload::{FileSource, Reload, Reloadable};
use crate::tls::{self, self_signed};
use crate::upstream::dial::Dialer;
use crate::upstream::url::Protocol;

/// The files that are reloaded while the proxy runs.
pub(super) struct ReloadableFiles {
    pub(super) sources: Vec<Box<dyn Reload>>,
    pub(super) metrics: ProxyMetrics,
}

impl ReloadableFiles {
    fn open<T: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        files: Vec<std::path::PathBuf>,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + 'static,
    ) -> Result<Arc<Reloadable<T>>, Error> {
        let source = FileSource::open(name, files, &self.metrics, load).map_err(Error::Certificate)?;
        let current = source.current();
        self.sources.push(Box::new(source));
        Ok(current)
    }
}

fn file_content(contents: &[Vec<u8>], index: usize) -> &[u8] {
    contents.get(index).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn worker_config(
    settings: &Settings,
    metrics: &Metrics,
    proxy_metrics: &ProxyMetrics,
    files: &mut ReloadableFiles,
) -> Result<WorkerConfig, Error> {
    let access = Arc::new(access_control(settings, metrics, proxy_metrics, files)?);
    let tls = match &settings.secure_address {
        None => None,
        Some(_) => Some(Arc::new(server_tls(settings, files)?)),
    };
    let url = &settings.upstream.url;
    let authority = url.endpoint.as_ref().map(|endpoint| endpoint.authority.as_str());
    Ok(WorkerConfig {
        access,
        upstream_url: url.clone(),
        host_override: settings.upstream.host_override.clone(),
        default_host: authority.and_then(|authority| HeaderValue::from_str(authority).ok()),
        upgrades: settings.upgrades.clone(),
        http2: settings.http2,
        limits: settings.limits,
        tls,
        access_log: settings.access_log,
        shutdown: Shutdown::default(),
    })
}

fn access_control(
    settings: &Settings,
    metrics: &Metrics,
    proxy_metrics: &ProxyMetrics,
    files: &mut ReloadableFiles,
) -> Result<AccessControl, Error> {
    let hmac_key = HmacKey::new().ok_or_else(|| {
        system("generating the cache key")(std::io::Error::other("no system randomness available"))
    })?;
    let KubernetesSettings { timeout, rate, token_ttls, decision_ttls, cache, .. } = &settings.kubernetes;
    let limiter = rate.map(|(rate, burst)| RateLimiter::new(rate, burst));
    let client = kube_client(&settings.kubernetes, metrics)?;
    let reviews = Arc::new(ReviewClient::new(client, limiter, *timeout, proxy_metrics));
    let authentication = &settings.authentication;
    let protected = || authentication.protected.iter().map(String::as_str);
    let client_ca: Option<Arc<Reloadable<RootCertStore>>> = match &authentication.client_ca {
        // OpenID Connect replaces client certificates too.
        Some(file) if settings.oidc.is_none() => {
            Some(files.open("client authority", vec![file.clone()], |contents| {
                tls::pem::root_store(file_content(contents, 0))
            })?)
        }
        _ => None,
    };
    let identity = (authentication.identity_headers.clone(), hmac_key.clone());
    let tokens = match &settings.oidc {
        Some(oidc) => TokenAuthenticator::Oidc(Arc::new(OidcAuthenticator::new(
            (oidc.clone(), issuer_tls(oidc)?),
            Runtime::current(),
            (*cache, token_ttls.definite),
            identity,
            proxy_metrics,
        ))),
        None => TokenAuthenticator::TokenReview(TokenReviewer::new(
            (reviews.clone(), Runtime::current()),
            authentication.audiences.clone(),
            (*cache, *token_ttls),
            identity,
            proxy_metrics,
        )),
    };
    Ok(AccessControl {
        paths: settings.paths.clone(),
        protected: Arc::new(ProtectedHeaders::new(protected())),
        not_in_trailers: Arc::new(ProtectedHeaders::new(
            protected().chain(settings.configuration.mode.subresource_header().map(http::HeaderName::as_str)),
        )),
        tokens,
        authorizer: Authorizer::new(
            settings.configuration.clone(),
            &hmac_key,
            (*cache, *decision_ttls),
            (reviews, Runtime::current()),
            proxy_metrics,
        ),
        client_ca,
        identity_headers: authentication.identity_headers.clone(),
        hmac_key,
        outage_is_503: authentication.outage_is_503,
        metrics: proxy_metrics.clone(),
        review_failures: RateLimitedLog::default(),
    })
}

/// Creates the TLS configuration for the OpenID Connect issuer.
fn issuer_tls(oidc: &OidcSettings) -> Result<rustls::ClientConfig, Error> {
    let invalid = |error: String| Error::Certificate(format!("--oidc-ca-file: {error}"));
    match &oidc.ca {
        None => {
            tls::upstream::system_config(&tls::upstream::SYSTEM_BUNDLES).map_err(invalid).map(|mut config| {
                config.alpn_protocols.clear();
                config
            })
        }
        Some(file) => {
            let pem = std::fs::read(file).map_err(|error| invalid(format!("{}: {error}", file.display())))?;
            tls::upstream::config(&pem, None).map_err(invalid)
        }
    }
}

fn server_tls(settings: &Settings, files: &mut ReloadableFiles) -> Result<rustls::ServerConfig, Error> {
    let invalid = |error: &dyn std::fmt::Display| Error::Certificate(format!("serving certificate: {error}"));
    let certified_key = match &settings.tls.key_pair {
        Some((certificate, key)) => {
            files.open("serving certificate", vec![certificate.clone(), key.clone()], |contents| {
                tls::server::certified_key(file_content(contents, 0), file_content(contents, 1))
            })?
        }
        None => {
            let (certificate, key) = self_signed::generate().map_err(|error| invalid(&error))?;
            let certified_key = tls::server::certified_key(certificate.as_bytes(), key.as_bytes())
                .map_err(|error| invalid(&error))?;
            Arc::new(Reloadable::new(certified_key))
        }
    };
    tls::server::config(&settings.tls, settings.http2.enabled, certified_key).map_err(|error| invalid(&error))
}

pub(super) fn dialer(settings: &Settings, files: &mut ReloadableFiles) -> Result<Option<Dialer>, Error> {
    let Some(endpoint) = settings.upstream.url.endpoint.clone() else { return Ok(None) };
    let mut sources: Vec<std::path::PathBuf> = settings.upstream.ca.iter().cloned().collect();
    if let Some((certificate, key)) = &settings.upstream.client_key_pair {
        sources.extend([certificate.clone(), key.clone()]);
    }
    let tls = match (&settings.upstream.ca, endpoint.protocol) {
        (Some(_), _) => Some(files.open("upstream authority", sources, |contents| {
            let key_pair =
                (contents.len() > 1).then(|| (file_content(contents, 1), file_content(contents, 2)));
            tls::upstream::config(file_content(contents, 0), key_pair)
        })?),
        (None, Protocol::Tls) => {
            let config = tls::upstream::system_config(&tls::upstream::SYSTEM_BUNDLES);
            Some(Arc::new(Reloadable::new(
                config.map_err(|error| Error::Certificate(format!("--upstream-ca-file: {error}")))?,
            )))
        }
        (None, Protocol::Http1 | Protocol::H2c) => None,
    };
    Ok(Some(Dialer { endpoint, tls }))
}

fn kube_client(kubernetes: &KubernetesSettings, metrics: &Metrics) -> Result<kube::Client, Error> {
    let config = match &kubernetes.kubeconfig {
        Some(path) => {
            let invalid = |error: kube::config::KubeconfigError| {
                Error::Kubernetes(format!("--kubeconfig {}: {error}", path.display()))
            };
            let read = Kubeconfig::read_from(path).map_err(invalid)?;
            let options = KubeConfigOptions::default();
            futures_util::FutureExt::now_or_never(kube::Config::from_custom_kubeconfig(read, &options))
                .ok_or_else(|| {
                    Error::Kubernetes(format!(
                        "--kubeconfig {}: loading it did not complete at once",
                        path.display()
                    ))
                })?
                .map_err(invalid)?
        }
        None => kube::Config::incluster().map_err(|error| {
            Error::Kubernetes(format!(
                "no in-cluster configuration ({error}): set --kubeconfig or run in a pod"
            ))
        })?,
    };
    let agent = concat!("outrigger-proxy/", env!("CARGO_PKG_VERSION"));
    runtime::client::connect(config, agent, metrics).map_err(|error| Error::Kubernetes(error.to_string()))
}

pub(super) async fn listeners(
    settings: &Settings,
    metrics: &Metrics,
) -> Result<Vec<(&'static str, Listener)>, Error> {
    let mut listeners = Vec::new();
    let endpoints = settings.secure_address.as_ref().filter(|_| settings.endpoints_port != 0).map(|secure| {
        let host = secure.rsplit_once(':').map_or(secure.as_str(), |(host, _)| host);
        format!("{host}:{}", settings.endpoints_port)
    });
    let endpoint_purpose = Purpose::Endpoints(Arc::new(Endpoints::new(metrics)));
    for (flag, address, purpose) in [
        ("insecure-listen-address", settings.insecure_address.clone(), Purpose::Plain),
        ("secure-listen-address", settings.secure_address.clone(), Purpose::Tls),
        ("proxy-endpoints-port", endpoints, endpoint_purpose),
    ] {
        let Some(address) = address else { continue };
        let failed = |source| Error::Listen { flag, address: address.clone(), source };
        let listener = Listener::bind(&address, purpose).await.map_err(failed)?;
        let local = listener.address().map_err(system("reading the listen address"))?;
        tracing::info!(flag, address = %local, "listening");
        listeners.push((flag, listener));
    }
    Ok(listeners)
}
