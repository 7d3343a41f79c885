//! A scripted HTTP or TLS server in place of a sidecar, and a client of it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::names::object;
use api::sei_node::Scheme;
use api::sidecar_wire::TASK_KIND_HEADER;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use operator::sidecar::{Client, Sidecars, TokenSource};
use plan::node::{ObservedSecret, SecretObservation, Transport};
use runtime::Key;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testbed::Error;
use testbed::cluster::pki::{CertificateAuthority, Identity, ServerNames};
use testbed::harness::wait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The timeout of waits.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    pub host: String,
    pub token: String,
    /// The header with the type of a submitted task.
    pub task_kind: String,
    pub body: String,
    /// The number of its connection, from 1.
    pub connection: usize,
}

/// A response, and its delay.
#[derive(Clone, Debug)]
pub struct Reply {
    pub code: u16,
    pub body: String,
    pub after: Duration,
}

/// Returns a response without delay.
pub fn reply(code: u16, body: impl Into<String>) -> Reply {
    Reply { code, body: body.into(), after: Duration::ZERO }
}

type Script = Box<dyn Fn(&Received) -> Reply + Send>;

struct Shared {
    requests: Mutex<Vec<Received>>,
    script: Mutex<Script>,
    identity: Mutex<Option<Identity>>,
    connections: Mutex<(usize, JoinSet<()>)>,
}

/// A running server. It stops with the runtime of its test.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server with plain HTTP, or with TLS.
    pub async fn start(identity: Option<Identity>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            script: Mutex::new(Box::new(|_| reply(200, ""))),
            identity: Mutex::new(identity),
            connections: Mutex::default(),
        });
        let server = Self { address: listener.local_addr()?, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let identity = shared.identity.lock().expect("the lock is not poisoned").clone();
                let (count, tasks) = &mut *shared.connections.lock().expect("the lock is not poisoned");
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

    /// Sets the script of the responses.
    pub fn respond_with(&self, script: impl Fn(&Received) -> Reply + Send + 'static) {
        *self.shared.script.lock().expect("the lock is not poisoned") = Box::new(script);
    }

    /// Sets the certificate of new connections, or plain HTTP.
    pub fn set_identity(&self, identity: Option<Identity>) {
        *self.shared.identity.lock().expect("the lock is not poisoned") = identity;
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.requests.lock().expect("the lock is not poisoned").clone()
    }

    /// Drops every connection without a TLS or HTTP shutdown, and waits until they are gone.
    pub async fn close_connections(&self) {
        let mut tasks = {
            let (_, tasks) = &mut *self.shared.connections.lock().expect("the lock is not poisoned");
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
    let service = service_fn(move |request| handle(shared.clone(), request, number));
    // A client may disconnect at any time.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    connection: usize,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header_value = |name| {
        let value = request.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut received = Received {
        method: request.method().to_string(),
        path: request.uri().to_string(),
        host: header_value(header::HOST),
        token: header_value(header::AUTHORIZATION),
        task_kind: header_value(http::HeaderName::from_static(TASK_KIND_HEADER)),
        body: String::new(),
        connection,
    };
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    received.body = String::from_utf8_lossy(&body).into_owned();
    let reply = (shared.script.lock().expect("the lock is not poisoned"))(&received);
    shared.requests.lock().expect("the lock is not poisoned").push(received);
    tokio::time::sleep(reply.after).await;
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = reply.code.try_into().expect("a valid status code");
    Ok(response)
}

fn tls(identity: &Identity) -> ServerConfig {
    let certificates = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let certificates = certificates.collect::<Result<_, _>>().expect("valid PEM");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("valid PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("the key matches the certificate")
}

/// The node of the sidecar.
pub fn node() -> Key {
    Key { namespace: "sei".into(), name: "a".into() }
}

/// The transport to the sidecar.
pub fn transport(secret: Option<&str>) -> Transport {
    Transport {
        scheme: if secret.is_some() { Scheme::Https } else { Scheme::Http },
        host: object::pod_host("a", "sei"),
        address: Some("127.0.0.1".into()),
        secret: secret.map(str::to_owned),
        audience: None,
    }
}

/// Issues a certificate for the sidecar of a node.
pub fn issue(ca: &CertificateAuthority, node: &str) -> testbed::Result<Identity> {
    let names = ServerNames { dns: vec![object::pod_host(node, "sei")], ..ServerNames::default() };
    ca.issue_server(node, &names)
}

/// Returns the Secret with a certificate, and optionally its CA.
pub fn secret(identity: &Identity, ca: Option<&CertificateAuthority>) -> SecretObservation {
    let mut data = vec![("tls.crt", identity.certificate.clone())];
    data.extend(ca.map(|ca| ("ca.crt", ca.pem().to_owned())));
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
    let secret = Secret { data: Some(data.collect()), ..Secret::default() };
    SecretObservation::Found(Arc::new(ObservedSecret { secret, ..ObservedSecret::default() }))
}

/// Calls until the answer is there. On a busy machine it may come after the time for which a reconcile waits.
pub async fn answer<T: Default + PartialEq>(call: impl AsyncFn() -> T) -> T {
    let answered = wait::until("the answer of the sidecar", Duration::from_secs(30), || async {
        let answer = call().await;
        if answer == T::default() { Err("pending") } else { Ok(answer) }
    });
    answered.await.expect("the server answers")
}

/// The client under test, its file with the token for pods of previous versions, and the keys that it woke.
pub struct Caller {
    pub sidecars: Sidecars,
    pub token: PathBuf,
    mismatches: Arc<Mutex<Vec<Key>>>,
    woken: Arc<Mutex<Vec<Key>>>,
    _dir: tempfile::TempDir,
}

impl Caller {
    /// Creates a client of a server, with the token `one`.
    pub fn new(server: &Server) -> Self {
        Self::at(server.address)
    }

    /// Creates a client of an address.
    pub fn at(address: SocketAddr) -> Self {
        let nowhere = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = kube::Client::try_from(nowhere).expect("a client needs no server");
        Self::with_tokens(address, TokenSource::new(client, node()), true)
    }

    /// Creates a client of an address that gets its tokens from this source, and the token `one` from a file only if `legacy` is set.
    pub fn with_tokens(address: SocketAddr, tokens: TokenSource, legacy: bool) -> Self {
        let dir = tempfile::tempdir().expect("the directory can be created");
        let token = dir.path().join("token");
        std::fs::write(&token, "one\n").expect("the file is writable");
        let woken: Arc<Mutex<Vec<Key>>> = Arc::default();
        let template = format!("{{podIP}}:{}", address.port()).parse().expect("a valid template");
        let mismatches: Arc<Mutex<Vec<Key>>> = Arc::default();
        let record = |keys: &Arc<Mutex<Vec<Key>>>| {
            let keys = keys.clone();
            move |key| keys.lock().expect("the lock is not poisoned").push(key)
        };
        let on_mismatch = record(&mismatches);
        let legacy_file = legacy.then(|| token.clone());
        let client = Client::new(template, tokens, legacy_file, move |secret| on_mismatch(secret.clone()));
        let sidecars = Sidecars::new(client, record(&woken));
        Self { sidecars, token, mismatches, woken, _dir: dir }
    }

    /// Returns the Secrets whose certificate was not served so far.
    pub fn mismatches(&self) -> Vec<Key> {
        self.mismatches.lock().expect("the lock is not poisoned").clone()
    }

    /// Returns the keys woken so far.
    pub fn woken(&self) -> Vec<Key> {
        self.woken.lock().expect("the lock is not poisoned").clone()
    }

    /// Waits until this many keys were woken.
    pub async fn wait_woken(&self, count: usize) -> testbed::Result<()> {
        wait::until(format!("{count} wake-ups"), TIMEOUT, || async {
            let woken = self.woken();
            if woken.len() >= count { Ok(()) } else { Err(Error::Other(format!("{woken:?}"))) }
        })
        .await
    }
}
