//! X509: clients with certificates.

use std::path::Path;
use std::time::Duration;

use testbed::cluster::pki::{Authority, Flaw, Identity, ServerNames};
use testbed::harness::wait;
use testbed::harness::wire::Trust;
use testbed::{Result, TestResult};

use crate::ask::Ask;
use crate::case::Case;
use crate::program::{Orders, Proxy, code};

/// A certificate for every proxy: its address is its name.
pub fn serving(authority: &Authority, orders: &Orders<'_>) -> Result<Identity> {
    let names = ServerNames { addresses: vec![orders.address().into()], ..ServerNames::default() };
    authority.server("proxy.test", &names)
}

/// A proxy with TLS that believes clients of one authority, by the file given; what a client must trust.
async fn believing(case: &Case<'_>, clients: Option<&Path>) -> Result<(Proxy, Trust)> {
    let authority = Authority::new("servers")?;
    let orders = case.proxy().secure();
    let (certificate, key) = serving(&authority, &orders)?.write(case.ground.folder.path(), "serving")?;
    let mut orders = orders
        .flag(&format!("--tls-cert-file={}", certificate.display()))
        .flag(&format!("--tls-private-key-file={}", key.display()))
        .flag("--auth-header-fields-enabled=true");
    if let Some(clients) = clients {
        orders = orders.flag(&format!("--client-ca-file={}", clients.display()));
    }
    Ok((orders.start().await?, Trust::authority(authority.pem())))
}

fn write(case: &Case<'_>, name: &str, text: &str) -> Result<std::path::PathBuf> {
    let path = case.ground.folder.path().join(name);
    std::fs::write(&path, text)
        .map_err(|source| testbed::Error::Io { what: format!("writing {}", path.display()), source })?;
    Ok(path)
}

/// X509-01: a good certificate, and what is asked about its holder.
pub async fn good(case: &Case<'_>) -> TestResult {
    let clients = Authority::new("clients")?;
    let file = write(case, "clients.crt", clients.pem())?;
    let user = format!("jane-{}", case.ground.namespace);
    case.ground.grant_paths(&user, &["/ok"], &["get"]).await?;
    let (proxy, trust) = believing(case, Some(&file)).await?;
    let jane = clients.client(&user, Some("team"))?;
    let answer = proxy.ask_secure(&Ask::get("/ok"), &trust.clone().show(&jane)).await;
    case.check("the answer", 200, code(&answer));
    let seen = case.upstream.take();
    let shown = |name: &str| seen.first().map_or("nothing came".into(), |one| one.shown(name));
    case.check("the user", &user, shown("x-remote-user"));
    case.check("the groups", "team|system:authenticated", shown("x-remote-groups"));
    let calls = case.ground.calls(0, 1).await?;
    let spec = calls.access_reviews.first().map(|one| one["spec"].clone()).unwrap_or_default();
    let credential = spec["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    case.check("its id", true, credential.is_some_and(|id| id.starts_with("X509SHA256=") && id.len() == 75));
    case.check("token reviews", 0, calls.token_reviews);
    case.check("without a certificate", 401, code(&proxy.ask_secure(&Ask::get("/ok"), &trust).await));
    Ok(())
}

/// X509-02.
pub async fn of_another_authority(case: &Case<'_>) -> TestResult {
    let (clients, others) = (Authority::new("clients")?, Authority::new("clients")?);
    let file = write(case, "clients.crt", clients.pem())?;
    let (proxy, trust) = believing(case, Some(&file)).await?;
    let mallory = others.client("jane", None)?;
    case.check("the answer", 401, code(&proxy.ask_secure(&Ask::get("/ok"), &trust.show(&mallory)).await));
    Ok(())
}

async fn flawed(case: &Case<'_>, flaw: Flaw) -> TestResult {
    let clients = Authority::new("clients")?;
    let file = write(case, "clients.crt", clients.pem())?;
    let token = case.ground.caller().await?;
    let (proxy, trust) = believing(case, Some(&file)).await?;
    let trust = trust.show(&clients.flawed_client("jane", flaw)?);
    case.check("the answer", 401, code(&proxy.ask_secure(&Ask::get("/ok"), &trust).await));
    case.check(
        "with a good token",
        200,
        code(&proxy.ask_secure(&Ask::get("/ok").token(token), &trust).await),
    );
    Ok(())
}

/// X509-03.
pub async fn expired(case: &Case<'_>) -> TestResult {
    flawed(case, Flaw::Expired).await
}

/// X509-04.
pub async fn a_servers(case: &Case<'_>) -> TestResult {
    flawed(case, Flaw::ForServers).await
}

/// X509-05.
pub async fn nameless(case: &Case<'_>) -> TestResult {
    flawed(case, Flaw::Nameless).await
}

/// X509-06: a good certificate wins over a token; a bad one does not spoil it.
pub async fn with_a_token(case: &Case<'_>) -> TestResult {
    let (clients, others) = (Authority::new("clients")?, Authority::new("others")?);
    let file = write(case, "clients.crt", clients.pem())?;
    let user = format!("jane-{}", case.ground.namespace);
    case.ground.grant_paths(&user, &["/ok"], &["get"]).await?;
    let token = case.ground.caller().await?;
    let (proxy, trust) = believing(case, Some(&file)).await?;
    let ask = Ask::get("/ok").token(token);
    let good = trust.clone().show(&clients.client(&user, None)?);
    case.check("good certificate, good token", 200, code(&proxy.ask_secure(&ask, &good).await));
    let bad = trust.show(&others.client("mallory", None)?);
    case.check("bad certificate, good token", 200, code(&proxy.ask_secure(&ask, &bad).await));
    let users: Vec<String> = case.upstream.take().iter().map(|one| one.shown("x-remote-user")).collect();
    case.check("who is meant", format!("{user} {}", case.ground.name_of("caller")), users.join(" "));
    Ok(())
}

/// X509-07: an authority that is replaced, as a rename and as the swap of a link that volumes of secrets make.
pub async fn another_authority(case: &Case<'_>) -> TestResult {
    let (first, second, third) =
        (Authority::new("first")?, Authority::new("second")?, Authority::new("third")?);
    let user = format!("jane-{}", case.ground.namespace);
    case.ground.grant_paths(&user, &["/ok"], &["get"]).await?;
    let folder = case.ground.folder.path();
    let data = |number: usize, authority: &Authority| -> Result<()> {
        let place = folder.join(format!("..{number}"));
        let failed = |source| testbed::Error::Io { what: format!("making {}", place.display()), source };
        std::fs::create_dir_all(&place).map_err(failed)?;
        std::fs::write(place.join("ca.crt"), authority.pem()).map_err(failed)?;
        let link = folder.join("..next");
        std::os::unix::fs::symlink(format!("..{number}"), &link).map_err(failed)?;
        std::fs::rename(&link, folder.join("..data")).map_err(failed)?;
        // As a kubelet does.
        match number {
            1 => Ok(()),
            _ => std::fs::remove_dir_all(folder.join(format!("..{}", number - 1))).map_err(failed),
        }
    };
    data(1, &first)?;
    std::os::unix::fs::symlink("..data/ca.crt", folder.join("linked.crt"))?;
    let (proxy, trust) = believing(case, Some(&folder.join("linked.crt"))).await?;
    let shows =
        |authority: &Authority| -> Result<Trust> { Ok(trust.clone().show(&authority.client(&user, None)?)) };
    case.check("the first", 200, code(&proxy.ask_secure(&Ask::get("/ok"), &shows(&first)?).await));
    data(2, &second)?;
    case.check("the second, by a link", "believed", believed(&proxy, &shows(&second)?).await);
    case.check(
        "the first, afterwards",
        401,
        code(&proxy.ask_secure(&Ask::get("/ok"), &shows(&first)?).await),
    );

    let plain = write(case, "plain.crt", first.pem())?;
    let (proxy, trust) = believing(case, Some(&plain)).await?;
    let new = write(case, "new.crt", third.pem())?;
    std::fs::rename(new, &plain)?;
    let shows = trust.show(&third.client(&user, None)?);
    case.check("the third, by a rename", "believed", believed(&proxy, &shows).await);
    std::fs::write(&plain, "no certificate")?;
    let served = wait::throughout("200", Duration::from_secs(3), || async {
        let seen = code(&proxy.ask_secure(&Ask::get("/ok"), &shows).await);
        if seen == "200" { Ok(()) } else { Err(seen) }
    });
    case.check(
        "with a broken file",
        200,
        served.await.map_or_else(|seen| seen.to_string(), |()| "200".into()),
    );
    Ok(())
}

async fn believed(proxy: &Proxy, trust: &Trust) -> String {
    let seen = wait::until("a new authority", Duration::from_secs(100), || async {
        let seen = code(&proxy.ask_secure(&Ask::get("/ok"), trust).await);
        if seen == "200" { Ok(()) } else { Err(seen) }
    });
    seen.await.map_or_else(|_| "not believed".into(), |()| "believed".into())
}

/// X509-08: a certificate that nobody asked for does no harm.
pub async fn unasked(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let (proxy, trust) = believing(case, None).await?;
    let trust = trust.show(&Authority::new("clients")?.client("jane", None)?);
    case.check("alone", 401, code(&proxy.ask_secure(&Ask::get("/ok"), &trust).await));
    case.check("with a token", 200, code(&proxy.ask_secure(&Ask::get("/ok").token(token), &trust).await));
    case.check("it still runs", "yes", proxy.runs());
    Ok(())
}
