//! AUTHN: who is believed.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::json;
use testbed::faults::fault_proxy::{Alteration, Fault, Matching, Refusal, Resource, Times};
use testbed::{Result, TestResult};

use crate::ask::Ask;
use crate::case::Case;

/// Calls that ask about a token.
pub fn token_reviews() -> Matching {
    Matching::any().resource(Resource::new("authentication.k8s.io", "tokenreviews"))
}

async fn asked(case: &Case<'_>) -> Result<usize> {
    Ok(case.ground.calls(0, 0).await?.token_reviews)
}

/// AUTHN-01: nobody.
pub async fn nobody(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().start().await?;
    case.check("no credentials", 401, proxy.code(&Ask::get("/ok")).await);
    case.check("an empty header", 401, proxy.code(&Ask::get("/ok").header("Authorization", "")).await);
    case.check("a scheme alone", 401, proxy.code(&Ask::get("/ok").header("Authorization", "Bearer")).await);
    case.check("token reviews", 0, asked(case).await?);
    Ok(())
}

/// AUTHN-02.
pub async fn basic(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().start().await?;
    case.check("the answer", 401, proxy.code(&Ask::get("/ok").header("Authorization", "Basic eDp5")).await);
    case.check("token reviews", 0, asked(case).await?);
    Ok(())
}

/// AUTHN-03: two spaces are no token.
pub async fn two_spaces(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").header("Authorization", &format!("Bearer  {token}"));
    case.check("the answer", 401, proxy.code(&ask).await);
    case.check("token reviews", 0, asked(case).await?);
    Ok(())
}

/// AUTHN-04: what stands behind the token is not looked at.
pub async fn a_third_part(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").header("Authorization", &format!("Bearer {token} and more"));
    case.check("the answer", 200, proxy.code(&ask).await);
    Ok(())
}

/// AUTHN-05.
pub async fn any_case_of_the_scheme(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    for scheme in ["bearer", "BEARER", "bEaReR"] {
        let ask = Ask::get("/ok").header("Authorization", &format!("{scheme} {token}"));
        case.check(scheme, 200, proxy.code(&ask).await);
    }
    Ok(())
}

/// AUTHN-06: of two lines, the upstream program could believe the other one.
pub async fn two_lines(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token).header("Authorization", "Bearer other");
    case.check("good and bad", 400, proxy.code(&ask).await);
    let ask = Ask::get("/ok").header("Authorization", "Bearer other").token(token);
    case.check("bad and good", 400, proxy.code(&ask).await);
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// AUTHN-07: with audiences, a token for others is not believed.
pub async fn audiences(case: &Case<'_>) -> TestResult {
    let plain = case.ground.caller().await?;
    let own = case.ground.token("caller", &["proxy.test"]).await?;
    let other = case.ground.token("caller", &["other.test"]).await?;
    let proxy = case.proxy().flag("--auth-token-audiences=another.test,proxy.test").start().await?;
    case.check("ours", 200, proxy.code(&Ask::get("/ok").token(&own)).await);
    case.check("another's", 401, proxy.code(&Ask::get("/ok").token(&other)).await);
    case.check("the API server's", 401, proxy.code(&Ask::get("/ok").token(plain)).await);
    let proxy = case.proxy().start().await?;
    case.check("ours where none is asked for", 401, proxy.code(&Ask::get("/ok").token(&own)).await);
    Ok(())
}

/// AUTHN-08: an API server that does not know audiences says none.
pub async fn no_audiences_in_the_answer(case: &Case<'_>) -> TestResult {
    case.ground.caller().await?;
    let own = case.ground.token("caller", &["proxy.test"]).await?;
    let faults = case.faults().await?;
    let forget = Alteration::by(|review| {
        if let Some(status) = review["status"].as_object_mut() {
            status.remove("audiences");
        }
    });
    faults.inject(Fault::Alter(forget), token_reviews(), Times::Always);
    let orders = case.proxy().api(faults.url())?.flag("--auth-token-audiences=proxy.test");
    let proxy = orders.start().await?;
    case.check("the answer", 401, proxy.code(&Ask::get("/ok").token(&own)).await);
    let wrong = Alteration::by(|review| review["status"]["audiences"] = json!(["other.test"]));
    let faults = case.faults().await?;
    faults.inject(Fault::Alter(wrong), token_reviews(), Times::Always);
    let orders = case.proxy().api(faults.url())?.flag("--auth-token-audiences=proxy.test");
    let proxy = orders.start().await?;
    case.check("others in the answer", 401, proxy.code(&Ask::get("/ok").token(&own)).await);
    Ok(())
}

/// AUTHN-09: not authenticated, with an error and without.
pub async fn not_authenticated(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    for (name, status) in [
        ("without an error", json!({ "authenticated": false })),
        ("with an error", json!({ "authenticated": false, "error": "no" })),
        ("nothing said", json!({})),
    ] {
        let faults = case.faults().await?;
        let deny = Alteration::by(move |review| review["status"] = status.clone());
        let denial = faults.inject(Fault::Alter(deny), token_reviews(), Times::Always);
        let proxy = case.proxy().api(faults.url())?.start().await?;
        case.check(name, 401, proxy.code(&Ask::get("/ok").token(token)).await);
        case.check(&format!("{name}: asked"), 1, denial.fired());
    }
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// AUTHN-10: an API server that fails once is asked again.
pub async fn a_failure_is_tried_again(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    for (name, refusal) in [
        ("500", Refusal::of(StatusCode::INTERNAL_SERVER_ERROR)),
        ("504", Refusal::of(StatusCode::GATEWAY_TIMEOUT)),
        ("429", Refusal::of(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(1))),
    ] {
        let faults = case.faults().await?;
        let failure = faults.inject(Fault::Answer(refusal), token_reviews(), Times::ONCE);
        let proxy = case.proxy().api(faults.url())?.start().await?;
        case.check(name, 200, proxy.code(&Ask::get("/ok").token(token)).await);
        case.check(&format!("{name}: it happened"), 1, failure.fired());
    }
    let faults = case.faults().await?;
    let failure = faults.inject(Fault::Reset, token_reviews(), Times::ONCE);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("a reset", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    case.check("a reset: it happened", 1, failure.fired());
    Ok(())
}

/// AUTHN-11: a refusal is not tried again.
pub async fn a_refusal_is_not(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    let refusal = Refusal::of(StatusCode::FORBIDDEN);
    let refused = faults.inject(Fault::Answer(refusal), token_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("the answer", 401, proxy.code(&Ask::get("/ok").token(token)).await);
    case.check("asked", 1, refused.fired());
    Ok(())
}

/// AUTHN-12: an API server that does not answer is not waited for without end.
pub async fn a_silent_api_server(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    faults.inject(Fault::Delay(Duration::from_secs(300)), token_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    let begin = Instant::now();
    let mut wire = testbed::harness::wire::Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    // Longer than one patience of the wire: the upstream program waits thirty seconds.
    let mut seen = String::new();
    while begin.elapsed() < Duration::from_secs(50) && seen.is_empty() {
        let (bytes, _) = wire.rest(Duration::from_secs(2)).await;
        seen = String::from_utf8_lossy(&bytes).chars().take(12).collect();
    }
    case.check("the answer", "HTTP/1.1 401", seen);
    case.check("within 40 s", "yes", if begin.elapsed() < Duration::from_secs(40) { "yes" } else { "no" });
    Ok(())
}

/// AUTHN-13: what a refusal looks like.
pub async fn the_refusal(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().start().await?;
    let answer = proxy.ask(&Ask::get("/ok").token("garbage")).await?;
    let header = |name: &str| answer.header(name).unwrap_or("-").to_owned();
    case.check("code", 401, answer.status);
    case.check("text", "Unauthorized\n", answer.text());
    case.check("content type", "text/plain; charset=utf-8", header("content-type"));
    case.check("sniffing", "nosniff", header("x-content-type-options"));
    case.check("challenge", "-", header("www-authenticate"));
    Ok(())
}

/// AUTHN-14: a token that was believed goes no further.
pub async fn the_token_stays_here(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flags(&["--ignore-paths=/open", "--v=10"]).start().await?;
    case.check("the answer", 200, proxy.code(&Ask::get("/ok").token(token).header("Cookie", "a=b")).await);
    let seen = case.upstream.take();
    let shown = |name: &str| seen.first().map_or("nothing came".into(), |one| one.shown(name));
    case.check("Authorization", "-", shown("authorization"));
    case.check("other headers", "a=b", shown("cookie"));
    proxy.code(&Ask::get("/open").token(token)).await;
    let signature = token.rsplit('.').next().unwrap_or(token);
    let told = proxy.log().contains(signature);
    case.check("the token in the log", "no", if told { "yes" } else { "no" });
    Ok(())
}
