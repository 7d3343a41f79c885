//! X509: authentication with client certificates.

use std::path::Path;
use std::time::Duration;

use testbed::cluster::pki::{CertificateAuthority, Flaw, Identity, ServerNames};
use testbed::harness::raw_http::ClientTls;
use testbed::harness::wait;
use testbed::{Result, TestResult};

use crate::case::Case;
use crate::proxy::{Proxy, ProxyBuilder, status_text};
use crate::raw_request::RawRequest;

/// Issues a serving certificate for the address of a proxy.
pub fn serving_certificate(ca: &CertificateAuthority, builder: &ProxyBuilder<'_>) -> Result<Identity> {
    let names = ServerNames { addresses: vec![builder.address().into()], ..ServerNames::default() };
    ca.issue_server("proxy.test", &names)
}

/// Starts a proxy with TLS and a client CA file. Returns the CA that clients must trust, too.
async fn start_with_client_ca(case: &Case<'_>, clients: Option<&Path>) -> Result<(Proxy, ClientTls)> {
    let ca = CertificateAuthority::new("servers")?;
    let builder = case.proxy().secure();
    let (certificate, key) = serving_certificate(&ca, &builder)?.write(case.fixture.dir.path(), "serving")?;
    let mut builder = builder
        .flag(&format!("--tls-cert-file={}", certificate.display()))
        .flag(&format!("--tls-private-key-file={}", key.display()))
        .flag("--auth-header-fields-enabled=true");
    if let Some(clients) = clients {
        builder = builder.flag(&format!("--client-ca-file={}", clients.display()));
    }
    Ok((builder.start().await?, ClientTls::trusting_ca(ca.pem())))
}

fn write(case: &Case<'_>, name: &str, text: &str) -> Result<std::path::PathBuf> {
    let path = case.fixture.dir.path().join(name);
    std::fs::write(&path, text)
        .map_err(|source| testbed::Error::Io { what: format!("writing {}", path.display()), source })?;
    Ok(path)
}

/// X509-01: a trusted client certificate sets user, groups and credential id without a TokenReview.
pub async fn trusted_certificate_authenticates_user(case: &Case<'_>) -> TestResult {
    let clients = CertificateAuthority::new("clients")?;
    let file = write(case, "clients.crt", clients.pem())?;
    let user = format!("jane-{}", case.fixture.namespace);
    case.fixture.grant_paths(&user, &["/ok"], &["get"]).await?;
    let (proxy, trust) = start_with_client_ca(case, Some(&file)).await?;
    let jane = clients.issue_client(&user, Some("team"))?;
    let response = proxy.send_tls(&RawRequest::get("/ok"), &trust.clone().client_certificate(&jane)).await;
    case.check("the answer", 200, status_text(&response));
    let received = case.upstream.take();
    let header =
        |name: &str| received.first().map_or("nothing came".into(), |request| request.joined_header(name));
    case.check("the user", &user, header("x-remote-user"));
    case.check("the groups", "team|system:authenticated", header("x-remote-groups"));
    let calls = case.fixture.api_calls(0, 1).await?;
    let spec = calls.access_reviews.first().map(|review| review["spec"].clone()).unwrap_or_default();
    let credential = spec["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    case.check(
        "the credential id",
        true,
        credential.is_some_and(|id| id.starts_with("X509SHA256=") && id.len() == 75),
    );
    case.check("token reviews", 0, calls.token_reviews);
    case.check(
        "without a certificate",
        401,
        status_text(&proxy.send_tls(&RawRequest::get("/ok"), &trust).await),
    );
    Ok(())
}

/// X509-02: a client certificate issued by another CA is rejected.
pub async fn certificate_of_other_ca_is_rejected(case: &Case<'_>) -> TestResult {
    let (clients, others) = (CertificateAuthority::new("clients")?, CertificateAuthority::new("clients")?);
    let file = write(case, "clients.crt", clients.pem())?;
    let (proxy, trust) = start_with_client_ca(case, Some(&file)).await?;
    let mallory = others.issue_client("jane", None)?;
    case.check(
        "the answer",
        401,
        status_text(&proxy.send_tls(&RawRequest::get("/ok"), &trust.client_certificate(&mallory)).await),
    );
    Ok(())
}

async fn check_flawed_certificate(case: &Case<'_>, flaw: Flaw) -> TestResult {
    let clients = CertificateAuthority::new("clients")?;
    let file = write(case, "clients.crt", clients.pem())?;
    let token = case.fixture.caller_token().await?;
    let (proxy, trust) = start_with_client_ca(case, Some(&file)).await?;
    let trust = trust.client_certificate(&clients.issue_flawed_client("jane", flaw)?);
    case.check("the answer", 401, status_text(&proxy.send_tls(&RawRequest::get("/ok"), &trust).await));
    case.check(
        "with a good token",
        200,
        status_text(&proxy.send_tls(&RawRequest::get("/ok").token(token), &trust).await),
    );
    Ok(())
}

/// X509-03: an expired client certificate is rejected; a token still works.
pub async fn expired_certificate_is_rejected(case: &Case<'_>) -> TestResult {
    check_flawed_certificate(case, Flaw::Expired).await
}

/// X509-04: a certificate for server authentication is rejected; a token still works.
pub async fn server_certificate_is_rejected(case: &Case<'_>) -> TestResult {
    check_flawed_certificate(case, Flaw::ServerOnly).await
}

/// X509-05: a client certificate without a common name is rejected; a token still works.
pub async fn certificate_without_name_is_rejected(case: &Case<'_>) -> TestResult {
    check_flawed_certificate(case, Flaw::NoCommonName).await
}

/// X509-06: a trusted certificate wins over a token; an untrusted one falls back to the token.
pub async fn trusted_certificate_wins_over_token(case: &Case<'_>) -> TestResult {
    let (clients, others) = (CertificateAuthority::new("clients")?, CertificateAuthority::new("others")?);
    let file = write(case, "clients.crt", clients.pem())?;
    let user = format!("jane-{}", case.fixture.namespace);
    case.fixture.grant_paths(&user, &["/ok"], &["get"]).await?;
    let token = case.fixture.caller_token().await?;
    let (proxy, trust) = start_with_client_ca(case, Some(&file)).await?;
    let request = RawRequest::get("/ok").token(token);
    let good = trust.clone().client_certificate(&clients.issue_client(&user, None)?);
    case.check("good certificate, good token", 200, status_text(&proxy.send_tls(&request, &good).await));
    let bad = trust.client_certificate(&others.issue_client("mallory", None)?);
    case.check("bad certificate, good token", 200, status_text(&proxy.send_tls(&request, &bad).await));
    let users: Vec<String> =
        case.upstream.take().iter().map(|request| request.joined_header("x-remote-user")).collect();
    case.check("the users", format!("{user} {}", case.fixture.username("caller")), users.join(" "));
    Ok(())
}

/// X509-07: a replaced client CA file takes effect, both after a rename and after the symlink swap of a
/// Secret volume; a broken file keeps the previous CA.
pub async fn client_ca_is_reloaded(case: &Case<'_>) -> TestResult {
    let (first, second, third) = (
        CertificateAuthority::new("first")?,
        CertificateAuthority::new("second")?,
        CertificateAuthority::new("third")?,
    );
    let user = format!("jane-{}", case.fixture.namespace);
    case.fixture.grant_paths(&user, &["/ok"], &["get"]).await?;
    let dir = case.fixture.dir.path();
    let swap_volume = |number: usize, ca: &CertificateAuthority| -> Result<()> {
        let data_dir = dir.join(format!("..{number}"));
        let failed = |source| testbed::Error::Io { what: format!("creating {}", data_dir.display()), source };
        std::fs::create_dir_all(&data_dir).map_err(failed)?;
        std::fs::write(data_dir.join("ca.crt"), ca.pem()).map_err(failed)?;
        let link = dir.join("..next");
        std::os::unix::fs::symlink(format!("..{number}"), &link).map_err(failed)?;
        std::fs::rename(&link, dir.join("..data")).map_err(failed)?;
        // The kubelet removes the previous directory, too.
        match number {
            1 => Ok(()),
            _ => std::fs::remove_dir_all(dir.join(format!("..{}", number - 1))).map_err(failed),
        }
    };
    swap_volume(1, &first)?;
    std::os::unix::fs::symlink("..data/ca.crt", dir.join("linked.crt"))?;
    let (proxy, trust) = start_with_client_ca(case, Some(&dir.join("linked.crt"))).await?;
    let with_client_of = |ca: &CertificateAuthority| -> Result<ClientTls> {
        Ok(trust.clone().client_certificate(&ca.issue_client(&user, None)?))
    };
    case.check(
        "the first",
        200,
        status_text(&proxy.send_tls(&RawRequest::get("/ok"), &with_client_of(&first)?).await),
    );
    swap_volume(2, &second)?;
    case.check(
        "the second, by a symlink swap",
        "trusted",
        wait_until_trusted(&proxy, &with_client_of(&second)?).await,
    );
    case.check(
        "the first, afterwards",
        401,
        status_text(&proxy.send_tls(&RawRequest::get("/ok"), &with_client_of(&first)?).await),
    );

    let plain = write(case, "plain.crt", first.pem())?;
    let (proxy, trust) = start_with_client_ca(case, Some(&plain)).await?;
    let new = write(case, "new.crt", third.pem())?;
    std::fs::rename(new, &plain)?;
    let client = trust.client_certificate(&third.issue_client(&user, None)?);
    case.check("the third, by a rename", "trusted", wait_until_trusted(&proxy, &client).await);
    std::fs::write(&plain, "not a certificate")?;
    let served = wait::throughout("200", Duration::from_secs(3), || async {
        let received = status_text(&proxy.send_tls(&RawRequest::get("/ok"), &client).await);
        if received == "200" { Ok(()) } else { Err(received) }
    });
    case.check(
        "with a broken file",
        200,
        served.await.map_or_else(|received| received.to_string(), |()| "200".into()),
    );
    Ok(())
}

/// Waits until a client is trusted and returns `trusted` or `not trusted`.
async fn wait_until_trusted(proxy: &Proxy, trust: &ClientTls) -> String {
    let received = wait::until("the new CA", Duration::from_secs(100), || async {
        let received = status_text(&proxy.send_tls(&RawRequest::get("/ok"), trust).await);
        if received == "200" { Ok(()) } else { Err(received) }
    });
    received.await.map_or_else(|_| "not trusted".into(), |()| "trusted".into())
}

/// X509-08: a client certificate without --client-ca-file is ignored.
pub async fn unrequested_certificate_is_ignored(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let (proxy, trust) = start_with_client_ca(case, None).await?;
    let trust = trust.client_certificate(&CertificateAuthority::new("clients")?.issue_client("jane", None)?);
    case.check("alone", 401, status_text(&proxy.send_tls(&RawRequest::get("/ok"), &trust).await));
    case.check(
        "with a token",
        200,
        status_text(&proxy.send_tls(&RawRequest::get("/ok").token(token), &trust).await),
    );
    case.check("it still runs", "yes", proxy.is_running());
    Ok(())
}
