//! OIDC: tokens of an issuer, verified by the proxy itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testbed::fakes::oidc::Issuer;
use testbed::harness::wait;
use testbed::{Result, TestResult};

use crate::ask::Ask;
use crate::case::Case;
use crate::program::{Orders, Proxy};

const AUDIENCE: &str = "proxy.test";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Claims that are believed, with some of them changed; a null takes one away.
fn claims(issuer: &Issuer, email: &str, changes: &Value) -> Value {
    let mut claims = json!({
        "iss": issuer.url(), "aud": AUDIENCE, "sub": "1", "iat": now() - 10, "exp": now() + 600,
        "email": email, "groups": ["team", "others"], "jti": "number-1",
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        if value.is_null() {
            claims.as_object_mut().map(|all| all.remove(name));
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn believing<'g>(case: &'g Case<'_>, issuer: &Issuer) -> Result<Orders<'g>> {
    let file = case.ground.folder.path().join("issuer.crt");
    std::fs::write(&file, issuer.authority().pem())
        .map_err(|source| testbed::Error::Io { what: format!("writing {}", file.display()), source })?;
    Ok(case
        .proxy()
        .flag(&format!("--oidc-issuer={}", issuer.url()))
        .flag(&format!("--oidc-clientID={AUDIENCE}"))
        .flag(&format!("--oidc-ca-file={}", file.display()))
        .flags(&["--oidc-sign-alg=ES256", "--auth-header-fields-enabled"]))
}

/// The issuer is found in the background: until then nobody is believed.
async fn until_found(proxy: &Proxy, token: &str) -> Result<()> {
    wait::until("the issuer", Duration::from_secs(30), || async {
        let code = proxy.code(&Ask::get("/ok").token(token)).await;
        if code == "401" { Err(code) } else { Ok(()) }
    })
    .await
}

/// OIDC-01: a token that is good, what is asked about its holder, and what the upstream is told.
pub async fn good(case: &Case<'_>) -> TestResult {
    let issuer = Issuer::start().await?;
    let email = format!("jane-{}@proxy.test", case.ground.namespace);
    case.ground.grant_paths(&email, &["/ok"], &["get"]).await?;
    let proxy = believing(case, &issuer)?.start().await?;
    let token = issuer.token(&claims(&issuer, &email, &json!({})))?;
    until_found(&proxy, &token).await?;
    let _ = case.upstream.take();
    case.check("a permitted request", 200, proxy.code(&Ask::get("/ok").token(&token)).await);
    let seen = case.upstream.take();
    let shown = |name: &str| seen.first().map_or("nothing came".into(), |one| one.shown(name));
    case.check("the user", &email, shown("x-remote-user"));
    case.check("the groups", "team|others", shown("x-remote-groups"));
    case.check("the token", "-", shown("authorization"));
    case.check("another path", 403, proxy.code(&Ask::get("/other").token(&token)).await);
    let calls = case.ground.calls(0, 2).await?;
    case.check("token reviews", 0, calls.token_reviews);
    let spec = calls.access_reviews.first().map(|one| one["spec"].clone()).unwrap_or_default();
    case.check("the groups that are asked about", json!(["team", "others"]), &spec["groups"]);
    let id = &spec["extra"]["authentication.kubernetes.io/credential-id"][0];
    case.check("the token's id", json!("JTI=number-1"), id);

    let token = issuer.token(&claims(&issuer, &email, &json!({ "groups": null })))?;
    proxy.code(&Ask::get("/ok").token(&token)).await;
    let told = case
        .upstream
        .take()
        .first()
        .map_or("nothing came".into(), |one| format!("{:?}", one.all("x-remote-groups")));
    case.check("no groups", "[\"\"]", told);
    let token = issuer.token(&claims(&issuer, &email, &json!({ "groups": "one" })))?;
    proxy.code(&Ask::get("/ok").token(&token)).await;
    let told = case.upstream.take().first().map_or("nothing came".into(), |one| one.shown("x-remote-groups"));
    case.check("one group, not in a list", "one", told);
    Ok(())
}

/// OIDC-02: tokens that are not good.
pub async fn not_good(case: &Case<'_>) -> TestResult {
    let (issuer, other) = (Issuer::start().await?, Issuer::start().await?);
    let email = format!("jane-{}@proxy.test", case.ground.namespace);
    case.ground.grant_paths(&email, &["/ok"], &["get"]).await?;
    let proxy = believing(case, &issuer)?.start().await?;
    let good = issuer.token(&claims(&issuer, &email, &json!({})))?;
    until_found(&proxy, &good).await?;
    let _ = case.upstream.take();
    for (name, changes) in [
        ("another audience", json!({ "aud": "other.test" })),
        ("expired", json!({ "exp": now() - 3600 })),
        ("not yet valid", json!({ "nbf": now() + 3600 })),
        ("an address that is not verified", json!({ "email_verified": false })),
        ("no address", json!({ "email": null })),
        ("another issuer", json!({ "iss": "https://other.test" })),
        ("groups that are none", json!({ "groups": { "a": 1 } })),
    ] {
        let token = issuer.token(&claims(&issuer, &email, &changes))?;
        case.check(name, 401, proxy.code(&Ask::get("/ok").token(&token)).await);
    }
    let forged = other.token(&claims(&issuer, &email, &json!({})))?;
    case.check("signed by another", 401, proxy.code(&Ask::get("/ok").token(&forged)).await);
    let unsigned = good.rsplit_once('.').map(|(body, _)| format!("{body}.")).unwrap_or_default();
    case.check("not signed", 401, proxy.code(&Ask::get("/ok").token(&unsigned)).await);
    let account = case.ground.caller().await?;
    case.check("of the cluster", 401, proxy.code(&Ask::get("/ok").token(account)).await);
    case.check("came through", 0, case.upstream.take().len());
    let verified =
        issuer.token(&claims(&issuer, &email, &json!({ "email_verified": true, "aud": ["x", AUDIENCE] })))?;
    case.check(
        "a verified address, one audience of two",
        200,
        proxy.code(&Ask::get("/ok").token(&verified)).await,
    );
    Ok(())
}

/// OIDC-03: other claims and prefixes; and an issuer that nobody reaches is no reason not to start.
pub async fn late_issuer(case: &Case<'_>) -> TestResult {
    let issuer = Issuer::start().await?;
    let user = format!("oidc:1-{}", case.ground.namespace);
    case.ground.grant_paths(&user, &["/ok"], &["get"]).await?;
    let flags = [
        "--oidc-username-claim=sub",
        "--oidc-groups-claim=roles",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-prefix=g:",
    ];
    let proxy = believing(case, &issuer)?.flags(&flags).start().await?;
    let subject = format!("1-{}", case.ground.namespace);
    let token = issuer.token(&claims(
        &issuer,
        "x@y",
        &json!({ "sub": subject, "roles": ["a"], "email_verified": false }),
    ))?;
    until_found(&proxy, &token).await?;
    let _ = case.upstream.take();
    case.check("a permitted request", 200, proxy.code(&Ask::get("/ok").token(&token)).await);
    let seen = case.upstream.take();
    let shown = |name: &str| seen.first().map_or("nothing came".into(), |one| one.shown(name));
    case.check("the user", &user, shown("x-remote-user"));
    case.check("the groups", "g:a", shown("x-remote-groups"));
    let nowhere = ["--oidc-issuer=https://127.0.0.1:1", "--oidc-clientID=x", "--ignore-paths=/open"];
    let proxy = case.proxy().flags(&nowhere).start().await?;
    case.check("an open path without an issuer", 200, proxy.code(&Ask::get("/open")).await);
    case.check("a token without an issuer", 401, proxy.code(&Ask::get("/ok").token(&token)).await);
    Ok(())
}
