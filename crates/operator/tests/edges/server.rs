//! A server in a sidecar's place, and what is needed to ask it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::names::object;
use api::sei_node::Scheme;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use operator::sidecar::{Client, Sidecars};
use plan::node::{SecretSight, Transport};
use runtime::Key;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testbed::Error;
use testbed::cluster::pki::{Authority, Identity, ServerNames};
use testbed::harness::wait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// How long things that take a moment may take.
pub const SOON: Duration = Duration::from_secs(20);

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub host: String,
    pub token: String,
    pub body: String,
    /// The number of its connection, from 1.
    pub connection: usize,
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    pub code: u16,
    pub body: String,
    pub after: Duration,
}

/// An answer that comes at once.
pub fn reply(code: u16, body: impl Into<String>) -> Reply {
    Reply { code, body: body.into(), after: Duration::ZERO }
}

type Script = Box<dyn Fn(&Seen) -> Reply + Send>;

struct Shared {
    seen: Mutex<Vec<Seen>>,
    script: Mutex<Script>,
    identity: Mutex<Option<Identity>>,
    connections: Mutex<(usize, JoinSet<()>)>,
}

/// A running server. It ends with the runtime of its test.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts one that serves in the clear, or with a certificate.
    pub async fn start(identity: Option<Identity>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            script: Mutex::new(Box::new(|_| reply(200, ""))),
            identity: Mutex::new(identity),
            connections: Mutex::default(),
        });
        let server = Self { address: listener.local_addr()?, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let identity = shared.identity.lock().expect("no test panicked in it").clone();
                let (count, tasks) = &mut *shared.connections.lock().expect("no test panicked in it");
                *count += 1;
                let (shared, number) = (shared.clone(), *count);
                tasks.spawn(async move {
                    match identity {
                        None => serve(shared, stream, number).await,
                        Some(identity) => {
                            let acceptor = TlsAcceptor::from(Arc::new(tls(&identity)));
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(shared, stream, number).await;
                            }
                        }
                    }
                });
            }
        });
        Ok(server)
    }

    /// Answers so from now on.
    pub fn answers(&self, script: impl Fn(&Seen) -> Reply + Send + 'static) {
        *self.shared.script.lock().expect("no test panicked in it") = Box::new(script);
    }

    /// Serves so from now on, new connections at least.
    pub fn serves(&self, identity: Option<Identity>) {
        *self.shared.identity.lock().expect("no test panicked in it") = identity;
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("no test panicked in it").clone()
    }

    /// Cuts every connection, without a word, and waits until they are gone.
    pub async fn cut_connections(&self) {
        let mut tasks = {
            let (_, tasks) = &mut *self.shared.connections.lock().expect("no test panicked in it");
            std::mem::take(tasks)
        };
        tasks.shutdown().await;
    }
}

async fn serve(
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    number: usize,
) {
    let service = service_fn(move |request| answer(shared.clone(), request, number));
    // Clients come and go.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    connection: usize,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = |name| {
        let value = request.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut seen = Seen {
        method: request.method().to_string(),
        path: request.uri().to_string(),
        host: text(header::HOST),
        token: text(header::AUTHORIZATION),
        body: String::new(),
        connection,
    };
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    seen.body = String::from_utf8_lossy(&body).into_owned();
    let reply = (shared.script.lock().expect("no test panicked in it"))(&seen);
    shared.seen.lock().expect("no test panicked in it").push(seen);
    tokio::time::sleep(reply.after).await;
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = reply.code.try_into().expect("tests use real codes");
    Ok(response)
}

fn tls(identity: &Identity) -> ServerConfig {
    let certificates = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let certificates = certificates.collect::<Result<_, _>>().expect("the test-bed writes PEM");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("the test-bed writes PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the usual versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("key and certificate belong together")
}

/// The node whose sidecar is played.
pub fn node() -> Key {
    Key { namespace: "sei".into(), name: "a".into() }
}

/// How its sidecar is reached.
pub fn transport(secret: Option<&str>) -> Transport {
    Transport {
        scheme: if secret.is_some() { Scheme::Https } else { Scheme::Http },
        host: object::pod_host("a", "sei"),
        address: Some("127.0.0.1".into()),
        secret: secret.map(str::to_owned),
    }
}

/// A certificate for the node, or for another.
pub fn issue(authority: &Authority, node: &str) -> testbed::Result<Identity> {
    let names = ServerNames { dns: vec![object::pod_host(node, "sei")], ..ServerNames::default() };
    authority.server(node, &names)
}

/// The Secret of a certificate, with its authority or without.
pub fn secret(identity: &Identity, authority: Option<&Authority>) -> SecretSight {
    let mut data = vec![("tls.crt", identity.certificate.clone())];
    data.extend(authority.map(|authority| ("ca.crt", authority.pem().to_owned())));
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
    SecretSight::Found(Arc::new(Secret { data: Some(data.collect()), ..Secret::default() }))
}

/// Those who ask: sidecars, the file with their token, and the keys that were woken.
pub struct Asker {
    pub sidecars: Sidecars,
    pub token: PathBuf,
    woken: Arc<Mutex<Vec<Key>>>,
    _folder: tempfile::TempDir,
}

impl Asker {
    /// Asks a server, and shows it the token `one`.
    pub fn of(server: &Server) -> Self {
        Self::at(server.address)
    }

    /// Asks whatever is at an address.
    pub fn at(address: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let token = folder.path().join("token");
        std::fs::write(&token, "one\n").expect("a file can be written");
        let woken: Arc<Mutex<Vec<Key>>> = Arc::default();
        let template = format!("{{podIP}}:{}", address.port()).parse().expect("a good template");
        let sidecars = Sidecars::new(Client::new(template, token.clone()), {
            let woken = woken.clone();
            move |key| woken.lock().expect("no test panicked in it").push(key)
        });
        Self { sidecars, token, woken, _folder: folder }
    }

    /// The keys that were woken so far.
    pub fn woken(&self) -> Vec<Key> {
        self.woken.lock().expect("no test panicked in it").clone()
    }

    /// Waits until so many keys were woken.
    pub async fn wakes(&self, count: usize) -> testbed::Result<()> {
        wait::until(format!("{count} wake-ups"), SOON, || async {
            let woken = self.woken();
            if woken.len() >= count { Ok(()) } else { Err(Error::Refused(format!("{woken:?}"))) }
        })
        .await
    }
}
