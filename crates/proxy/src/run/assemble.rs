//! Puts the parts of the process together.

use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::metrics::Metrics;
use rustls::RootCertStore;
use tokio::runtime::Handle as Runtime;

use super::{Error, system};
use crate::authentication::Tellers;
use crate::authentication::oidc::Oidc;
use crate::authentication::tokens::Tokens;
use crate::authorization::Authorizer;
use crate::cache::Secret;
use crate::metrics::ProxyMetrics;
use crate::request::protected::Protected;
use crate::reviews::{Limiter, Reviews};
use crate::serve::endpoints::Endpoints;
use crate::serve::gate::Gate;
use crate::serve::listener::Listener;
use crate::serve::stop::Stop;
use crate::serve::worker::{Orders, Purpose};
use crate::settings::{Kubernetes, Settings};
use crate::tls::reload::{Current, Look, Source};
use crate::tls::{self, self_signed};
use crate::upstream::dial::Dialer;
use crate::upstream::target::Speech;

/// Files that are looked at again.
pub(super) struct Files {
    pub(super) looks: Vec<Box<dyn Look>>,
    pub(super) metrics: ProxyMetrics,
}

impl Files {
    fn open<T: Send + Sync + 'static>(
        &mut self,
        what: &'static str,
        files: Vec<std::path::PathBuf>,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + 'static,
    ) -> Result<Arc<Current<T>>, Error> {
        let source = Source::open(what, files, &self.metrics, load).map_err(Error::Certificate)?;
        let current = source.current();
        self.looks.push(Box::new(source));
        Ok(current)
    }
}

fn part(content: &[Vec<u8>], index: usize) -> &[u8] {
    content.get(index).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn orders(
    settings: &Settings,
    metrics: &Metrics,
    proxy_metrics: &ProxyMetrics,
    files: &mut Files,
) -> Result<Orders, Error> {
    let secret = Secret::new().ok_or_else(|| {
        system("the key of the caches")(std::io::Error::other("the system gives no randomness"))
    })?;
    let Kubernetes { within, rate, tokens, decisions, cache, .. } = &settings.kubernetes;
    let limiter = rate.map(|(rate, burst)| Limiter::new(rate, burst));
    let client = client(&settings.kubernetes, metrics)?;
    let reviews = Arc::new(Reviews::new(client, limiter, *within, proxy_metrics));
    let by = || (reviews.clone(), Runtime::current());
    let tls = match &settings.secure {
        None => None,
        Some(_) => Some(Arc::new(serving(settings, files)?)),
    };
    let authorities: Option<Arc<Current<RootCertStore>>> = match &settings.client_ca {
        // An identity provider replaces certificates too.
        Some(file) if settings.oidc.is_none() => {
            Some(files.open("client authority", vec![file.clone()], |content| {
                tls::pem::authorities(part(content, 0))
            })?)
        }
        _ => None,
    };
    let tellers = match &settings.oidc {
        Some(oidc) => Tellers::Provider(Arc::new(Oidc::new(
            (oidc.clone(), issuer(oidc)?),
            Runtime::current(),
            (*cache, tokens.known),
            (settings.style.clone(), secret.clone()),
            proxy_metrics,
        ))),
        None => Tellers::ApiServer(Tokens::new(
            by(),
            settings.audiences.clone(),
            (*cache, *tokens),
            (settings.style.clone(), secret.clone()),
            proxy_metrics,
        )),
    };
    let gate = Gate {
        paths: crate::settings::Paths {
            allowed: settings.paths.allowed.clone(),
            ignored: settings.paths.ignored.clone(),
        },
        protected: Arc::new(Protected::new(settings.protected.iter().map(String::as_str))),
        tokens: tellers,
        authorizer: Authorizer::new(
            settings.configuration.clone(),
            &secret,
            (*cache, *decisions),
            by(),
            proxy_metrics,
        ),
        authorities,
        style: settings.style.clone(),
        secret,
        outage_is_503: settings.outage_is_503,
        metrics: proxy_metrics.clone(),
        told: crate::serve::seldom::Seldom::default(),
    };
    Ok(Orders {
        gate: Arc::new(gate),
        target: settings.upstream.target.clone(),
        host: settings.upstream.host.clone(),
        upgrades: settings.upgrades.clone(),
        http2: settings.http2,
        limits: settings.limits,
        tls,
        access_log: settings.access_log,
        stop: Stop::default(),
    })
}

/// How the issuer is trusted.
fn issuer(oidc: &crate::settings::Oidc) -> Result<rustls::ClientConfig, Error> {
    let refused = |why: String| Error::Certificate(format!("--oidc-ca-file: {why}"));
    match &oidc.ca {
        None => {
            tls::upstream::of_system(&tls::upstream::SYSTEM_BUNDLES).map_err(refused).map(|mut config| {
                config.alpn_protocols.clear();
                config
            })
        }
        Some(file) => {
            let pem = std::fs::read(file).map_err(|error| refused(format!("{}: {error}", file.display())))?;
            tls::upstream::config(&pem, None).map_err(refused)
        }
    }
}

fn serving(settings: &Settings, files: &mut Files) -> Result<rustls::ServerConfig, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::Certificate(format!("serving TLS: {error}"));
    let pair = match &settings.tls.pair {
        Some((certificate, key)) => {
            files.open("serving certificate", vec![certificate.clone(), key.clone()], |content| {
                tls::server::pair(part(content, 0), part(content, 1))
            })?
        }
        None => {
            let (certificate, key) = self_signed::make().map_err(|error| refused(&error))?;
            let pair =
                tls::server::pair(certificate.as_bytes(), key.as_bytes()).map_err(|why| refused(&why))?;
            Arc::new(Current::new(pair))
        }
    };
    tls::server::config(&settings.tls, settings.http2.enabled, pair).map_err(|error| refused(&error))
}

pub(super) fn dialer(settings: &Settings, files: &mut Files) -> Result<Option<Dialer>, Error> {
    let Some(way) = settings.upstream.target.way.clone() else { return Ok(None) };
    let mut sources: Vec<std::path::PathBuf> = settings.upstream.ca.iter().cloned().collect();
    if let Some((certificate, key)) = &settings.upstream.client {
        sources.extend([certificate.clone(), key.clone()]);
    }
    let tls = match (&settings.upstream.ca, way.speech) {
        (Some(_), _) => Some(files.open("upstream authority", sources, |content| {
            let pair = (content.len() > 1).then(|| (part(content, 1), part(content, 2)));
            tls::upstream::config(part(content, 0), pair)
        })?),
        (None, Speech::Tls) => {
            let config = tls::upstream::of_system(&tls::upstream::SYSTEM_BUNDLES);
            Some(Arc::new(Current::new(config.map_err(Error::Certificate)?)))
        }
        (None, Speech::Plain | Speech::H2c) => None,
    };
    Ok(Some(Dialer { way, tls }))
}

fn client(kubernetes: &Kubernetes, metrics: &Metrics) -> Result<kube::Client, Error> {
    let config = match &kubernetes.kubeconfig {
        Some(path) => {
            let refused = |error: kube::config::KubeconfigError| {
                Error::Kubernetes(format!("--kubeconfig {}: {error}", path.display()))
            };
            let read = Kubeconfig::read_from(path).map_err(refused)?;
            let options = KubeConfigOptions::default();
            futures_util::FutureExt::now_or_never(kube::Config::from_custom_kubeconfig(read, &options))
                .ok_or_else(|| {
                    Error::Kubernetes(format!(
                        "--kubeconfig {}: it could not be read at once",
                        path.display()
                    ))
                })?
                .map_err(refused)?
        }
        None => kube::Config::incluster().map_err(|error| {
            Error::Kubernetes(format!(
                "there is no service account here: give --kubeconfig FILE, or run in a pod ({error})"
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
    let endpoints = settings.secure.as_ref().filter(|_| settings.endpoints_port != 0).map(|secure| {
        let host = secure.rsplit_once(':').map_or(secure.as_str(), |(host, _)| host);
        format!("{host}:{}", settings.endpoints_port)
    });
    let served = Purpose::Endpoints(Arc::new(Endpoints::new(metrics)));
    for (flag, address, purpose) in [
        ("insecure-listen-address", settings.insecure.clone(), Purpose::Plain),
        ("secure-listen-address", settings.secure.clone(), Purpose::Tls),
        ("proxy-endpoints-port", endpoints, served),
    ] {
        let Some(address) = address else { continue };
        let failed = |source| Error::Listen { flag, address: address.clone(), source };
        let listener = Listener::bind(&address, purpose).await.map_err(failed)?;
        let local = listener.address().map_err(system("asking for an address"))?;
        tracing::info!(flag, address = %local, "listening");
        listeners.push((flag, listener));
    }
    Ok(listeners)
}
