//! OIDC: ID tokens, verified by the proxy itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testbed::fakes::oidc::Issuer;
use testbed::harness::wait;
use testbed::{Result, TestResult};

use crate::case::Case;
use crate::proxy::{Proxy, ProxyBuilder};
use crate::raw_request::RawRequest;

const AUDIENCE: &str = "proxy.test";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Returns valid claims with changes; null removes a claim.
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

fn proxy_with_issuer<'g>(case: &'g Case<'_>, issuer: &Issuer) -> Result<ProxyBuilder<'g>> {
    let file = case.fixture.dir.path().join("issuer.crt");
    std::fs::write(&file, issuer.ca().pem())
        .map_err(|source| testbed::Error::Io { what: format!("writing {}", file.display()), source })?;
    Ok(case
        .proxy()
        .flag(&format!("--oidc-issuer={}", issuer.url()))
        .flag(&format!("--oidc-clientID={AUDIENCE}"))
        .flag(&format!("--oidc-ca-file={}", file.display()))
        .flags(&["--oidc-sign-alg=ES256", "--auth-header-fields-enabled"]))
}

/// Waits for OIDC discovery, which runs in the background. Until then every token is rejected.
async fn wait_for_discovery(proxy: &Proxy, token: &str) -> Result<()> {
    wait::until("OIDC discovery", Duration::from_secs(30), || async {
        let code = proxy.status(&RawRequest::get("/ok").token(token)).await;
        if code == "401" { Err(code) } else { Ok(()) }
    })
    .await
}

/// OIDC-01: a valid ID token sets user and groups for the SubjectAccessReview and the upstream, without a
/// TokenReview.
pub async fn valid_id_token_authenticates_user(case: &Case<'_>) -> TestResult {
    let issuer = Issuer::start().await?;
    let email = format!("jane-{}@proxy.test", case.fixture.namespace);
    case.fixture.grant_paths(&email, &["/ok"], &["get"]).await?;
    let proxy = proxy_with_issuer(case, &issuer)?.start().await?;
    let token = issuer.token(&claims(&issuer, &email, &json!({})))?;
    wait_for_discovery(&proxy, &token).await?;
    let _ = case.upstream.take();
    case.check("a permitted request", 200, proxy.status(&RawRequest::get("/ok").token(&token)).await);
    let received = case.upstream.take();
    let header =
        |name: &str| received.first().map_or("nothing came".into(), |request| request.joined_header(name));
    case.check("the user", &email, header("x-remote-user"));
    case.check("the groups", "team|others", header("x-remote-groups"));
    case.check("the token", "-", header("authorization"));
    case.check("another path", 403, proxy.status(&RawRequest::get("/other").token(&token)).await);
    let calls = case.fixture.api_calls(0, 2).await?;
    case.check("token reviews", 0, calls.token_reviews);
    let spec = calls.access_reviews.first().map(|review| review["spec"].clone()).unwrap_or_default();
    case.check("the groups of the access review", json!(["team", "others"]), &spec["groups"]);
    let id = &spec["extra"]["authentication.kubernetes.io/credential-id"][0];
    case.check("the token's id", json!("JTI=number-1"), id);

    let token = issuer.token(&claims(&issuer, &email, &json!({ "groups": null })))?;
    proxy.status(&RawRequest::get("/ok").token(&token)).await;
    let forwarded =
        case.upstream.take().first().map_or("nothing came".into(), |request| {
            format!("{:?}", request.header_values("x-remote-groups"))
        });
    case.check("no groups", "[\"\"]", forwarded);
    let token = issuer.token(&claims(&issuer, &email, &json!({ "groups": "one" })))?;
    proxy.status(&RawRequest::get("/ok").token(&token)).await;
    let forwarded = case
        .upstream
        .take()
        .first()
        .map_or("nothing came".into(), |request| request.joined_header("x-remote-groups"));
    case.check("one group, not in a list", "one", forwarded);
    Ok(())
}

/// OIDC-02: ID tokens with wrong claims, signature or issuer are rejected.
pub async fn invalid_id_tokens_return_401(case: &Case<'_>) -> TestResult {
    let (issuer, other) = (Issuer::start().await?, Issuer::start().await?);
    let email = format!("jane-{}@proxy.test", case.fixture.namespace);
    case.fixture.grant_paths(&email, &["/ok"], &["get"]).await?;
    let proxy = proxy_with_issuer(case, &issuer)?.start().await?;
    let good = issuer.token(&claims(&issuer, &email, &json!({})))?;
    wait_for_discovery(&proxy, &good).await?;
    let _ = case.upstream.take();
    for (name, changes) in [
        ("another audience", json!({ "aud": "other.test" })),
        ("expired", json!({ "exp": now() - 3600 })),
        ("not yet valid", json!({ "nbf": now() + 3600 })),
        ("an unverified email", json!({ "email_verified": false })),
        ("no email", json!({ "email": null })),
        ("another issuer", json!({ "iss": "https://other.test" })),
        ("malformed groups", json!({ "groups": { "a": 1 } })),
    ] {
        let token = issuer.token(&claims(&issuer, &email, &changes))?;
        case.check(name, 401, proxy.status(&RawRequest::get("/ok").token(&token)).await);
    }
    let forged = other.token(&claims(&issuer, &email, &json!({})))?;
    case.check("signed by another issuer", 401, proxy.status(&RawRequest::get("/ok").token(&forged)).await);
    let unsigned = good.rsplit_once('.').map(|(body, _)| format!("{body}.")).unwrap_or_default();
    case.check("unsigned", 401, proxy.status(&RawRequest::get("/ok").token(&unsigned)).await);
    let account = case.fixture.caller_token().await?;
    case.check("of a service account", 401, proxy.status(&RawRequest::get("/ok").token(account)).await);
    case.check("came through", 0, case.upstream.take().len());
    let verified =
        issuer.token(&claims(&issuer, &email, &json!({ "email_verified": true, "aud": ["x", AUDIENCE] })))?;
    case.check(
        "a verified email, one audience of two",
        200,
        proxy.status(&RawRequest::get("/ok").token(&verified)).await,
    );
    Ok(())
}

/// OIDC-03: claims and prefixes are configurable, and an unreachable issuer does not prevent startup.
pub async fn claims_and_prefixes_are_configurable(case: &Case<'_>) -> TestResult {
    let issuer = Issuer::start().await?;
    let user = format!("oidc:1-{}", case.fixture.namespace);
    case.fixture.grant_paths(&user, &["/ok"], &["get"]).await?;
    let flags = [
        "--oidc-username-claim=sub",
        "--oidc-groups-claim=roles",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-prefix=g:",
    ];
    let proxy = proxy_with_issuer(case, &issuer)?.flags(&flags).start().await?;
    let subject = format!("1-{}", case.fixture.namespace);
    let token = issuer.token(&claims(
        &issuer,
        "x@y",
        &json!({ "sub": subject, "roles": ["a"], "email_verified": false }),
    ))?;
    wait_for_discovery(&proxy, &token).await?;
    let _ = case.upstream.take();
    case.check("a permitted request", 200, proxy.status(&RawRequest::get("/ok").token(&token)).await);
    let received = case.upstream.take();
    let header =
        |name: &str| received.first().map_or("nothing came".into(), |request| request.joined_header(name));
    case.check("the user", &user, header("x-remote-user"));
    case.check("the groups", "g:a", header("x-remote-groups"));
    let unreachable = ["--oidc-issuer=https://127.0.0.1:1", "--oidc-clientID=x", "--ignore-paths=/open"];
    let proxy = case.proxy().flags(&unreachable).start().await?;
    case.check("an ignored path without an issuer", 200, proxy.status(&RawRequest::get("/open")).await);
    case.check("a token without an issuer", 401, proxy.status(&RawRequest::get("/ok").token(&token)).await);
    Ok(())
}
