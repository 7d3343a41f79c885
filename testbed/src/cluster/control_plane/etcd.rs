//! etcd of one control plane, and reading from it what the API server really stored.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cluster::parts::Kubernetes;
use crate::cluster::pki::{self, Authority, ServerNames};
use crate::cluster::site::Site;
use crate::error::{Error, IoContext, Result};
use crate::process::{Process, Program};
use crate::tls;

const PORT: u16 = 2379;

/// The address the API server finds etcd at.
pub(super) fn url(site: &Site) -> String {
    format!("https://{}:{PORT}", site.addresses().control_plane())
}

/// Starts etcd. Without fsync: no test here asks what a power cut leaves of etcd, and every write would wait for disk.
pub(super) fn start(
    site: &Site,
    kubernetes: &Kubernetes,
    authority: &Authority,
    folder: &Path,
) -> Result<Process> {
    let names =
        ServerNames { addresses: vec![site.addresses().control_plane().into()], ..ServerNames::default() };
    let (certificate, key) = authority.peer("etcd", &names)?.write(folder, "etcd")?;
    let authority_file = folder.join("etcd-ca.crt");
    pki::write_public(&authority_file, authority.pem())?;
    Program::new("etcd", kubernetes.program("etcd"))
        .flag("data-dir", folder.join("etcd"))
        .flag("listen-client-urls", url(site))
        .flag("advertise-client-urls", url(site))
        .flag("listen-peer-urls", "http://127.0.0.1:2380")
        .flag("initial-advertise-peer-urls", "http://127.0.0.1:2380")
        .flag("initial-cluster", "testbed=http://127.0.0.1:2380")
        .flag("cert-file", certificate)
        .flag("key-file", key)
        .flag("trusted-ca-file", authority_file)
        .flag("client-cert-auth", "true")
        .flag("name", "testbed")
        .flag("log-level", "warn")
        .arg("--unsafe-no-fsync")
        .in_netns(site.netns())
        .start(site)
}

#[derive(Deserialize)]
struct RangeAnswer {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    #[serde(default)]
    value: String,
}

/// Reads one key through etcd's JSON gateway.
pub(super) async fn get(site: &Site, authority: &Authority, key: &str) -> Result<Option<Vec<u8>>> {
    let identity = authority.client("testbed", None)?;
    let config = tls::client(authority.pem(), Some(&identity))?;
    let address = site.addresses().control_plane();
    let tcp = TcpStream::connect((address, PORT)).await.context(|| format!("connecting to {}", url(site)))?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(std::net::IpAddr::from(address).into(), tcp)
        .await
        .context(|| format!("connecting to {}", url(site)))?;
    let failed = |error: &dyn std::fmt::Display| Error::Refused(format!("asking etcd for {key}: {error}"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let body = serde_json::json!({ "key": BASE64.encode(key) }).to_string();
    let request = http::Request::post("/v3/kv/range")
        .header(http::header::HOST, "etcd")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| failed(&error))?;
    let ask = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        answer.into_body().collect().await.map(|body| (status, body.to_bytes()))
    };
    let (status, bytes) = tokio::select! {
        answered = ask => answered.map_err(|error| failed(&error))?,
        ended = connection => return Err(failed(&format!("the connection ended: {ended:?}"))),
    };
    if !status.is_success() {
        return Err(failed(&format!("{status}: {}", String::from_utf8_lossy(&bytes))));
    }
    let answer: RangeAnswer = serde_json::from_slice(&bytes)?;
    answer.kvs.first().map(|found| BASE64.decode(&found.value).map_err(|error| failed(&error))).transpose()
}
