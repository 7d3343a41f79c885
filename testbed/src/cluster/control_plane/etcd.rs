//! etcd of a control plane, and reads of what the API server stored in it.

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
use crate::cluster::pki::{self, CertificateAuthority, ServerNames};
use crate::cluster::site::Site;
use crate::error::{Error, IoContext, Result};
use crate::process::{Process, Program};
use crate::tls;

const PORT: u16 = 2379;

/// Client URL of etcd.
pub(super) fn url(site: &Site) -> String {
    format!("https://{}:{PORT}", site.addresses().control_plane())
}

/// Starts etcd, without fsync: no test depends on durability after a power failure, and every write would wait for the
/// disk.
pub(super) fn start(
    site: &Site,
    kubernetes: &Kubernetes,
    ca: &CertificateAuthority,
    dir: &Path,
) -> Result<Process> {
    let names =
        ServerNames { addresses: vec![site.addresses().control_plane().into()], ..ServerNames::default() };
    let (certificate, key) = ca.issue_peer("etcd", &names)?.write(dir, "etcd")?;
    let ca_file = dir.join("etcd-ca.crt");
    pki::write_public(&ca_file, ca.pem())?;
    Program::new("etcd", kubernetes.program("etcd"))
        .flag("data-dir", dir.join("etcd"))
        .flag("listen-client-urls", url(site))
        .flag("advertise-client-urls", url(site))
        .flag("listen-peer-urls", "http://127.0.0.1:2380")
        .flag("initial-advertise-peer-urls", "http://127.0.0.1:2380")
        .flag("initial-cluster", "testbed=http://127.0.0.1:2380")
        .flag("cert-file", certificate)
        .flag("key-file", key)
        .flag("trusted-ca-file", ca_file)
        .flag("client-cert-auth", "true")
        .flag("name", "testbed")
        .flag("log-level", "warn")
        .arg("--unsafe-no-fsync")
        .in_netns(site.netns())
        .start(site)
}

#[derive(Deserialize)]
struct RangeResponse {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    #[serde(default)]
    value: String,
}

/// Reads a key through the JSON gateway of etcd.
pub(super) async fn get(site: &Site, ca: &CertificateAuthority, key: &str) -> Result<Option<Vec<u8>>> {
    let identity = ca.issue_client("testbed", None)?;
    let config = tls::client(ca.pem(), Some(&identity))?;
    let address = site.addresses().control_plane();
    let tcp = TcpStream::connect((address, PORT)).await.context(|| format!("connecting to {}", url(site)))?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(std::net::IpAddr::from(address).into(), tcp)
        .await
        .context(|| format!("connecting to {}", url(site)))?;
    let failed = |error: &dyn std::fmt::Display| Error::Other(format!("reading {key} from etcd: {error}"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let body = serde_json::json!({ "key": BASE64.encode(key) }).to_string();
    let request = http::Request::post("/v3/kv/range")
        .header(http::header::HOST, "etcd")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| failed(&error))?;
    let response = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        response.into_body().collect().await.map(|body| (status, body.to_bytes()))
    };
    let (status, bytes) = tokio::select! {
        result = response => result.map_err(|error| failed(&error))?,
        ended = connection => return Err(failed(&format!("connection closed: {ended:?}"))),
    };
    if !status.is_success() {
        return Err(failed(&format!("{status}: {}", String::from_utf8_lossy(&bytes))));
    }
    let response: RangeResponse = serde_json::from_slice(&bytes)?;
    response.kvs.first().map(|found| BASE64.decode(&found.value).map_err(|error| failed(&error))).transpose()
}
