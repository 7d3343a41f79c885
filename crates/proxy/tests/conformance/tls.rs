//! TLS: the TLS listener.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::CipherSuite;
use rustls::version::{TLS12, TLS13};
use testbed::cluster::pki::{CertificateAuthority, Identity};
use testbed::harness::raw_http::{ClientTls, RawConnection, frames};
use testbed::harness::wait;
use testbed::{Error, Result, TestResult};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::case::Case;
use crate::fixture::SOON;
use crate::proxy::{Proxy, ProxyBuilder, status_text};
use crate::raw_request::RawRequest;
use crate::x509::serving_certificate;

/// A proxy with a CA-issued serving certificate.
struct TlsProxy {
    proxy: Proxy,
    ca: CertificateAuthority,
    certificate: PathBuf,
    key: PathBuf,
}

async fn start_tls_proxy(case: &Case<'_>, flags: &[&str]) -> Result<TlsProxy> {
    let ca = CertificateAuthority::new("servers")?;
    let builder = case.proxy().secure();
    let name = format!("serving-{}", builder.address());
    let (certificate, key) = serving_certificate(&ca, &builder)?.write(case.fixture.dir.path(), &name)?;
    let proxy = with_files(builder, &certificate, &key).flags(flags).start().await?;
    Ok(TlsProxy { proxy, ca, certificate, key })
}

fn with_files<'g>(builder: ProxyBuilder<'g>, certificate: &Path, key: &Path) -> ProxyBuilder<'g> {
    builder
        .flag(&format!("--tls-cert-file={}", certificate.display()))
        .flag(&format!("--tls-private-key-file={}", key.display()))
}

/// Returns `yes` if a handshake succeeds.
async fn can_connect(proxy: &Proxy, trust: &ClientTls) -> Result<&'static str> {
    Ok(match RawConnection::connect_tls(proxy.secure(), trust.config()?).await {
        // With TLS 1.3 a rejection arrives after the handshake.
        Ok(mut connection) => {
            connection.send(RawRequest::get("/ok").bytes()).await.ok();
            if connection.read_response("GET").await.is_ok() { "yes" } else { "no" }
        }
        Err(_) => "no",
    })
}

/// TLS-01: --tls-min-version is enforced, with certificate files and with a self-signed certificate.
pub async fn minimum_tls_version_is_enforced(case: &Case<'_>) -> TestResult {
    let old = ClientTls::trusting_any().tls_versions(&[&TLS12]);
    let new = ClientTls::trusting_any().tls_versions(&[&TLS13]);
    let served = start_tls_proxy(case, &["--tls-min-version=VersionTLS13"]).await?;
    case.check("1.3 from files: 1.2", "no", can_connect(&served.proxy, &old).await?);
    case.check("1.3 from files: 1.3", "yes", can_connect(&served.proxy, &new).await?);
    let self_signed = case.proxy().secure().flag("--tls-min-version=VersionTLS13").start().await?;
    case.check("1.3, self-signed: 1.2", "no", can_connect(&self_signed, &old).await?);
    case.check("1.3, self-signed: 1.3", "yes", can_connect(&self_signed, &new).await?);
    for version in ["", "VersionTLS12", "VersionTLS11", "VersionTLS10"] {
        let proxy = case.proxy().secure().flag(&format!("--tls-min-version={version}")).start().await?;
        case.check(&format!("{version:?}: 1.2"), "yes", can_connect(&proxy, &old).await?);
        case.check(&format!("{version:?}: 1.3"), "yes", can_connect(&proxy, &new).await?);
    }
    Ok(())
}

/// TLS-02: --tls-cipher-suites restricts TLS 1.2, and legacy names next to supported ones are accepted.
pub async fn cipher_suites_are_restricted(case: &Case<'_>) -> TestResult {
    let only = |suite| ClientTls::trusting_any().tls_versions(&[&TLS12]).cipher_suites(&[suite]);
    let flags = [
        "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ];
    let served = start_tls_proxy(case, &flags).await?;
    let named = only(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
    let other = only(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    case.check("a listed suite", "yes", can_connect(&served.proxy, &named).await?);
    case.check("an unlisted suite", "no", can_connect(&served.proxy, &other).await?);
    case.check(
        "TLS 1.3 is not restricted",
        "yes",
        can_connect(&served.proxy, &ClientTls::trusting_any().tls_versions(&[&TLS13])).await?,
    );
    let legacy = "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305";
    let (outcome, _) = case.proxy().secure().flag(legacy).start_outcome().await?;
    case.check("legacy names next to supported ones", "serves", outcome);
    Ok(())
}

fn protocol_name(protocol: Option<Vec<u8>>) -> String {
    protocol.map_or("none".into(), |name| String::from_utf8_lossy(&name).into_owned())
}

async fn negotiated_protocol(proxy: &Proxy, offered: &[&str]) -> Result<String> {
    let config = ClientTls::trusting_any().alpn(offered).config()?;
    let stream = tokio::net::TcpStream::connect(proxy.secure()).await;
    let stream = stream.map_err(|source| testbed::Error::Io { what: "connecting".into(), source })?;
    let connected =
        tokio_rustls::TlsConnector::from(config).connect(proxy.secure().ip().into(), stream).await;
    Ok(connected.map_or("refused".into(), |stream| {
        protocol_name(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    }))
}

/// TLS-03: ALPN prefers h2 unless HTTP/2 is disabled.
pub async fn alpn_prefers_h2(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let served = start_tls_proxy(case, &[]).await?;
    case.check("both offered", "h2", negotiated_protocol(&served.proxy, &["http/1.1", "h2"]).await?);
    case.check("one offered", "http/1.1", negotiated_protocol(&served.proxy, &["http/1.1"]).await?);
    case.check("none offered", "none", negotiated_protocol(&served.proxy, &[]).await?);
    let trust = ClientTls::trusting_ca(served.ca.pem()).alpn(&["h2"]);
    let mut connection = RawConnection::connect_tls(served.proxy.secure(), trust.config()?).await?;
    let authorization = format!("Bearer {token}");
    let headers = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", &authorization),
    ];
    connection.send([frames::preface(), frames::request(1, &headers)].concat()).await?;
    let server_frames =
        frames::read_until(&mut connection, SOON, |server_frames| !server_frames.statuses.is_empty()).await?;
    case.check("a request over HTTP/2", "[(1, 200)]", format!("{:?}", server_frames.statuses));
    let disabled = case.proxy().secure().flag("--http2-disable").start().await?;
    case.check("without HTTP/2", "http/1.1", negotiated_protocol(&disabled, &["h2", "http/1.1"]).await?);
    Ok(())
}

/// Returns the certificate that the proxy serves.
async fn served_certificate(proxy: &Proxy) -> Result<Option<Vec<u8>>> {
    let trust = ClientTls::trusting_any();
    let _ = RawConnection::connect_tls(proxy.secure(), trust.config()?).await;
    Ok(trust.presented_certificate().certificate())
}

async fn has_changed(proxy: &Proxy, before: &Option<Vec<u8>>, within: Duration) -> bool {
    wait::until("a new certificate", within, || async {
        let now = served_certificate(proxy).await?;
        if now.is_some() && now != *before {
            Ok(())
        } else {
            Err(testbed::Error::Other("the certificate is unchanged".into()))
        }
    })
    .await
    .is_ok()
}

const SHORT_RELOAD_INTERVAL: &str = "--tls-reload-interval=1s";

/// TLS-04: a certificate replaced by a rename is reloaded.
pub async fn renamed_certificate_is_reloaded(case: &Case<'_>) -> TestResult {
    let served = start_tls_proxy(case, &[SHORT_RELOAD_INTERVAL]).await?;
    let before = served_certificate(&served.proxy).await?;
    let next = case.fixture.dir.path().join("next");
    std::fs::create_dir_all(&next)?;
    let (certificate, key) = issue_certificate(&served)?.write(&next, "next")?;
    std::fs::rename(key, &served.key)?;
    std::fs::rename(certificate, &served.certificate)?;
    case.check("the new certificate is served", true, has_changed(&served.proxy, &before, SOON).await);
    case.check("it still runs", "yes", served.proxy.is_running());
    Ok(())
}

/// Issues another certificate for the proxy.
fn issue_certificate(served: &TlsProxy) -> Result<Identity> {
    let names = testbed::cluster::pki::ServerNames {
        addresses: vec![served.proxy.address.into()],
        ..Default::default()
    };
    served.ca.issue_server("proxy.test", &names)
}

/// TLS-05: a certificate replaced by the symlink swap of a Secret volume is reloaded.
pub async fn swapped_secret_volume_is_reloaded(case: &Case<'_>) -> TestResult {
    let dir = case.fixture.dir.path().join("volume");
    std::fs::create_dir_all(&dir)?;
    let ca = CertificateAuthority::new("servers")?;
    let builder = case.proxy().secure();
    let swap = |number: usize, identity: &Identity| -> TestResult {
        let data = dir.join(format!("..{number}"));
        std::fs::create_dir_all(&data)?;
        identity.write(&data, "tls")?;
        std::os::unix::fs::symlink(format!("..{number}"), dir.join("..next"))?;
        std::fs::rename(dir.join("..next"), dir.join("..data"))?;
        // The kubelet removes the previous directory, too.
        if number > 1 {
            std::fs::remove_dir_all(dir.join(format!("..{}", number - 1)))?;
        }
        Ok(())
    };
    swap(1, &serving_certificate(&ca, &builder)?)?;
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), dir.join(name))?;
    }
    let second = serving_certificate(&ca, &builder)?;
    let proxy = with_files(builder, &dir.join("tls.crt"), &dir.join("tls.key"))
        .flag(SHORT_RELOAD_INTERVAL)
        .start()
        .await?;
    let before = served_certificate(&proxy).await?;
    swap(2, &second)?;
    case.check("the new certificate is served", true, has_changed(&proxy, &before, SOON).await);
    case.check("it still runs", "yes", proxy.is_running());
    Ok(())
}

/// TLS-06: a key that does not match, or is missing, keeps the previous certificate in use.
pub async fn mismatched_key_keeps_previous_certificate(case: &Case<'_>) -> TestResult {
    let served = start_tls_proxy(case, &[SHORT_RELOAD_INTERVAL]).await?;
    let before = served_certificate(&served.proxy).await?;
    std::fs::write(&served.certificate, issue_certificate(&served)?.certificate)?;
    let previous_is_served = async || {
        wait::throughout("the old one is served", Duration::from_secs(4), || async {
            if served_certificate(&served.proxy).await? == before {
                Ok(())
            } else {
                Err(Error::Other("another certificate is served".into()))
            }
        })
        .await
        .is_ok()
    };
    case.check("the old one is served", true, before.is_some() && previous_is_served().await);
    case.check("it still runs", "yes", served.proxy.is_running());
    std::fs::remove_file(&served.key)?;
    case.check("without a key the old one is served", true, previous_is_served().await);
    case.check("without a key it still runs", "yes", served.proxy.is_running());
    issue_certificate(&served)?.write(case.fixture.dir.path(), "whole")?;
    std::fs::rename(case.fixture.dir.path().join("whole.key"), &served.key)?;
    std::fs::rename(case.fixture.dir.path().join("whole.crt"), &served.certificate)?;
    case.check("a good pair is served again", true, has_changed(&served.proxy, &before, SOON).await);
    Ok(())
}

/// TLS-07: without certificate files, a self-signed certificate names the host and is valid for a year.
pub async fn self_signed_certificate_names_the_host(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().secure().start().await?;
    let trust = ClientTls::trusting_any();
    let response = proxy.send_tls(&RawRequest::get("/ok").token(token), &trust).await;
    case.check("a permitted request", 200, status_text(&response));
    let der = trust.presented_certificate().certificate().unwrap_or_default();
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
    let names = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let names: Vec<String> = names.map_or_else(Vec::new, |names| {
        let dns = |name: &GeneralName<'_>| {
            if let GeneralName::DNSName(name) = name { Some((*name).to_owned()) } else { None }
        };
        names.value.general_names.iter().filter_map(dns).collect()
    });
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_lowercase();
    case.check("it names the host", true, names.iter().any(|name| name.to_lowercase() == host));
    let validity = certificate.validity();
    let days = (validity.not_after.timestamp() - validity.not_before.timestamp()) / 86_400;
    case.check("it is valid for at least a year", true, days >= 364);
    Ok(())
}

/// TLS-08: client certificates are optional even with --client-ca-file.
pub async fn client_certificate_is_optional(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let clients = CertificateAuthority::new("clients")?;
    let file = case.fixture.dir.path().join("clients.crt");
    std::fs::write(&file, clients.pem())?;
    let served = start_tls_proxy(case, &[&format!("--client-ca-file={}", file.display())]).await?;
    let trust = ClientTls::trusting_ca(served.ca.pem());
    let request = RawRequest::get("/ok").token(token);
    case.check("no certificate", 200, status_text(&served.proxy.send_tls(&request, &trust).await));
    let known = trust.clone().client_certificate(&clients.issue_client("jane", None)?);
    case.check(
        "a certificate without permission",
        403,
        status_text(&served.proxy.send_tls(&RawRequest::get("/ok"), &known).await),
    );
    let unknown = trust.client_certificate(&CertificateAuthority::new("others")?.issue_client("jane", None)?);
    case.check(
        "a certificate of another CA",
        200,
        status_text(&served.proxy.send_tls(&request, &unknown).await),
    );
    case.check("in clear text", 200, served.proxy.status(&request).await);
    Ok(())
}
