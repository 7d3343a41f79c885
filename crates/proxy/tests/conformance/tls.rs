//! TLS: how the proxy serves with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::CipherSuite;
use rustls::version::{TLS12, TLS13};
use testbed::cluster::pki::{Authority, Identity};
use testbed::harness::wait;
use testbed::harness::wire::{Trust, Wire, frames};
use testbed::{Error, Result, TestResult};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::ask::Ask;
use crate::case::Case;
use crate::ground::SOON;
use crate::program::{Orders, Proxy, code};
use crate::x509::serving;

/// A proxy that serves with a certificate of its own.
struct Served {
    proxy: Proxy,
    authority: Authority,
    certificate: PathBuf,
    key: PathBuf,
}

async fn served(case: &Case<'_>, flags: &[&str]) -> Result<Served> {
    let authority = Authority::new("servers")?;
    let orders = case.proxy().secure();
    let name = format!("serving-{}", orders.address());
    let (certificate, key) = serving(&authority, &orders)?.write(case.ground.folder.path(), &name)?;
    let proxy = with_files(orders, &certificate, &key).flags(flags).start().await?;
    Ok(Served { proxy, authority, certificate, key })
}

fn with_files<'g>(orders: Orders<'g>, certificate: &Path, key: &Path) -> Orders<'g> {
    orders
        .flag(&format!("--tls-cert-file={}", certificate.display()))
        .flag(&format!("--tls-private-key-file={}", key.display()))
}

/// `yes` when a handshake comes about.
async fn shakes(proxy: &Proxy, trust: &Trust) -> Result<&'static str> {
    Ok(match Wire::encrypted(proxy.secure(), trust.config()?).await {
        // With TLS 1.3 a refusal comes behind the handshake.
        Ok(mut wire) => {
            wire.send(Ask::get("/ok").bytes()).await.ok();
            if wire.answer("GET").await.is_ok() { "yes" } else { "no" }
        }
        Err(_) => "no",
    })
}

/// TLS-01: the least version, with a certificate from files and with one of its own.
pub async fn versions(case: &Case<'_>) -> TestResult {
    let old = Trust::anybody().versions(&[&TLS12]);
    let new = Trust::anybody().versions(&[&TLS13]);
    let served = served(case, &["--tls-min-version=VersionTLS13"]).await?;
    case.check("1.3 from files: 1.2", "no", shakes(&served.proxy, &old).await?);
    case.check("1.3 from files: 1.3", "yes", shakes(&served.proxy, &new).await?);
    let own = case.proxy().secure().flag("--tls-min-version=VersionTLS13").start().await?;
    case.check("1.3, its own: 1.2", "no", shakes(&own, &old).await?);
    case.check("1.3, its own: 1.3", "yes", shakes(&own, &new).await?);
    for version in ["", "VersionTLS12", "VersionTLS11", "VersionTLS10"] {
        let proxy = case.proxy().secure().flag(&format!("--tls-min-version={version}")).start().await?;
        case.check(&format!("{version:?}: 1.2"), "yes", shakes(&proxy, &old).await?);
        case.check(&format!("{version:?}: 1.3"), "yes", shakes(&proxy, &new).await?);
    }
    Ok(())
}

/// TLS-02: suites, with a certificate from files and with one of its own.
pub async fn suites(case: &Case<'_>) -> TestResult {
    let only = |suite| Trust::anybody().versions(&[&TLS12]).suites(&[suite]);
    let flags = [
        "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ];
    let served = served(case, &flags).await?;
    let named = only(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
    let other = only(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    case.check("one that is named", "yes", shakes(&served.proxy, &named).await?);
    case.check("one that is not", "no", shakes(&served.proxy, &other).await?);
    case.check("1.3 has its own", "yes", shakes(&served.proxy, &Trust::anybody().versions(&[&TLS13])).await?);
    let legacy = "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305";
    let (outcome, _) = case.proxy().secure().flag(legacy).outcome().await?;
    case.check("names of old suites beside others", "serves", outcome);
    Ok(())
}

fn negotiated(protocol: Option<Vec<u8>>) -> String {
    protocol.map_or("none".into(), |name| String::from_utf8_lossy(&name).into_owned())
}

async fn protocol(proxy: &Proxy, offered: &[&str]) -> Result<String> {
    let config = Trust::anybody().protocols(offered).config()?;
    let stream = tokio::net::TcpStream::connect(proxy.secure()).await;
    let stream = stream.map_err(|source| testbed::Error::Io { what: "connecting".into(), source })?;
    let connected =
        tokio_rustls::TlsConnector::from(config).connect(proxy.secure().ip().into(), stream).await;
    Ok(connected.map_or("refused".into(), |stream| {
        negotiated(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    }))
}

/// TLS-03: which protocol is chosen.
pub async fn protocols(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let served = served(case, &[]).await?;
    case.check("both offered", "h2", protocol(&served.proxy, &["http/1.1", "h2"]).await?);
    case.check("one offered", "http/1.1", protocol(&served.proxy, &["http/1.1"]).await?);
    case.check("none offered", "none", protocol(&served.proxy, &[]).await?);
    let trust = Trust::authority(served.authority.pem()).protocols(&["h2"]);
    let mut wire = Wire::encrypted(served.proxy.secure(), trust.config()?).await?;
    let authorization = format!("Bearer {token}");
    let lines = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", &authorization),
    ];
    wire.send([frames::begin(), frames::request(1, &lines)].concat()).await?;
    let said = frames::listen(&mut wire, SOON, |said| !said.answers.is_empty()).await?;
    case.check("a request over HTTP/2", "[(1, 200)]", format!("{:?}", said.answers));
    let disabled = case.proxy().secure().flag("--http2-disable").start().await?;
    case.check("without HTTP/2", "http/1.1", protocol(&disabled, &["h2", "http/1.1"]).await?);
    Ok(())
}

/// Which certificate is served now.
async fn shown(proxy: &Proxy) -> Result<Option<Vec<u8>>> {
    let trust = Trust::anybody();
    let _ = Wire::encrypted(proxy.secure(), trust.config()?).await;
    Ok(trust.presented().certificate())
}

async fn changed(proxy: &Proxy, before: &Option<Vec<u8>>, within: Duration) -> bool {
    wait::until("another certificate", within, || async {
        let now = shown(proxy).await?;
        if now.is_some() && now != *before { Ok(()) } else { Err(testbed::Error::Refused("the same".into())) }
    })
    .await
    .is_ok()
}

const QUICKLY: &str = "--tls-reload-interval=1s";

/// TLS-04: a certificate that is replaced by a rename.
pub async fn renamed(case: &Case<'_>) -> TestResult {
    let served = served(case, &[QUICKLY]).await?;
    let before = shown(&served.proxy).await?;
    let next = case.ground.folder.path().join("next");
    std::fs::create_dir_all(&next)?;
    let (certificate, key) = another(&served)?.write(&next, "next")?;
    std::fs::rename(key, &served.key)?;
    std::fs::rename(certificate, &served.certificate)?;
    case.check("the new one is served", true, changed(&served.proxy, &before, SOON).await);
    case.check("it still runs", "yes", served.proxy.runs());
    Ok(())
}

fn another(served: &Served) -> Result<Identity> {
    let names = testbed::cluster::pki::ServerNames {
        addresses: vec![served.proxy.address.into()],
        ..Default::default()
    };
    served.authority.server("proxy.test", &names)
}

/// TLS-05: a certificate that is replaced as volumes of secrets are: by the swap of a link to a folder.
pub async fn swapped(case: &Case<'_>) -> TestResult {
    let folder = case.ground.folder.path().join("volume");
    std::fs::create_dir_all(&folder)?;
    let authority = Authority::new("servers")?;
    let orders = case.proxy().secure();
    let swap = |number: usize, identity: &Identity| -> TestResult {
        let data = folder.join(format!("..{number}"));
        std::fs::create_dir_all(&data)?;
        identity.write(&data, "tls")?;
        std::os::unix::fs::symlink(format!("..{number}"), folder.join("..next"))?;
        std::fs::rename(folder.join("..next"), folder.join("..data"))?;
        // As a kubelet does.
        if number > 1 {
            std::fs::remove_dir_all(folder.join(format!("..{}", number - 1)))?;
        }
        Ok(())
    };
    swap(1, &serving(&authority, &orders)?)?;
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), folder.join(name))?;
    }
    let second = serving(&authority, &orders)?;
    let proxy =
        with_files(orders, &folder.join("tls.crt"), &folder.join("tls.key")).flag(QUICKLY).start().await?;
    let before = shown(&proxy).await?;
    swap(2, &second)?;
    case.check("the new one is served", true, changed(&proxy, &before, SOON).await);
    case.check("it still runs", "yes", proxy.runs());
    Ok(())
}

/// TLS-06: a certificate and a key that do not belong together leave what is served as it was.
pub async fn mismatched(case: &Case<'_>) -> TestResult {
    let served = served(case, &[QUICKLY]).await?;
    let before = shown(&served.proxy).await?;
    std::fs::write(&served.certificate, another(&served)?.certificate)?;
    let kept = async || {
        wait::throughout("the old one is served", Duration::from_secs(4), || async {
            if shown(&served.proxy).await? == before {
                Ok(())
            } else {
                Err(Error::Refused("it is not".into()))
            }
        })
        .await
        .is_ok()
    };
    case.check("the old one is served", true, before.is_some() && kept().await);
    case.check("it still runs", "yes", served.proxy.runs());
    std::fs::remove_file(&served.key)?;
    case.check("without a key the old one is served", true, kept().await);
    case.check("without a key it still runs", "yes", served.proxy.runs());
    another(&served)?.write(case.ground.folder.path(), "whole")?;
    std::fs::rename(case.ground.folder.path().join("whole.key"), &served.key)?;
    std::fs::rename(case.ground.folder.path().join("whole.crt"), &served.certificate)?;
    case.check("a good pair is served again", true, changed(&served.proxy, &before, SOON).await);
    Ok(())
}

/// TLS-07: a certificate of its own names the host.
pub async fn of_its_own(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().secure().start().await?;
    let trust = Trust::anybody();
    let answer = proxy.ask_secure(&Ask::get("/ok").token(token), &trust).await;
    case.check("a permitted request", 200, code(&answer));
    let der = trust.presented().certificate().unwrap_or_default();
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
    case.check("it is good for a year at least", true, days >= 364);
    Ok(())
}

/// TLS-08: clients may show a certificate, and need not.
pub async fn clients_need_none(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let clients = Authority::new("clients")?;
    let file = case.ground.folder.path().join("clients.crt");
    std::fs::write(&file, clients.pem())?;
    let served = served(case, &[&format!("--client-ca-file={}", file.display())]).await?;
    let trust = Trust::authority(served.authority.pem());
    let ask = Ask::get("/ok").token(token);
    case.check("none", 200, code(&served.proxy.ask_secure(&ask, &trust).await));
    let known = trust.clone().show(&clients.client("jane", None)?);
    case.check("one that may nothing", 403, code(&served.proxy.ask_secure(&Ask::get("/ok"), &known).await));
    let unknown = trust.show(&Authority::new("others")?.client("jane", None)?);
    case.check("one of others", 200, code(&served.proxy.ask_secure(&ask, &unknown).await));
    case.check("in clear text beside it", 200, served.proxy.code(&ask).await);
    Ok(())
}
