//! AUTHN: authentication with bearer tokens.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::json;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, RequestMatcher, Resource, ResponseRewrite, Times};
use testbed::{Result, TestResult};

use crate::case::Case;
use crate::raw_request::RawRequest;

/// Matches TokenReviews.
pub fn token_reviews() -> RequestMatcher {
    RequestMatcher::any().resource(Resource::new("authentication.k8s.io", "tokenreviews"))
}

async fn token_review_count(case: &Case<'_>) -> Result<usize> {
    Ok(case.fixture.api_calls(0, 0).await?.token_reviews)
}

/// AUTHN-01: a request without credentials gets 401 and causes no TokenReview.
pub async fn missing_credentials_return_401(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().start().await?;
    case.check("no credentials", 401, proxy.status(&RawRequest::get("/ok")).await);
    case.check(
        "an empty header",
        401,
        proxy.status(&RawRequest::get("/ok").header("Authorization", "")).await,
    );
    case.check(
        "a scheme alone",
        401,
        proxy.status(&RawRequest::get("/ok").header("Authorization", "Bearer")).await,
    );
    case.check("token reviews", 0, token_review_count(case).await?);
    Ok(())
}

/// AUTHN-02: Basic credentials get 401 and cause no TokenReview.
pub async fn basic_credentials_return_401(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().start().await?;
    case.check(
        "the answer",
        401,
        proxy.status(&RawRequest::get("/ok").header("Authorization", "Basic eDp5")).await,
    );
    case.check("token reviews", 0, token_review_count(case).await?);
    Ok(())
}

/// AUTHN-03: two spaces between scheme and token make the credentials malformed.
pub async fn two_spaces_before_token_return_401(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").header("Authorization", &format!("Bearer  {token}"));
    case.check("the answer", 401, proxy.status(&request).await);
    case.check("token reviews", 0, token_review_count(case).await?);
    Ok(())
}

/// AUTHN-04: text after the token is ignored.
pub async fn text_after_token_is_ignored(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").header("Authorization", &format!("Bearer {token} and more"));
    case.check("the answer", 200, proxy.status(&request).await);
    Ok(())
}

/// AUTHN-05: the Bearer scheme matches in any case.
pub async fn scheme_is_case_insensitive(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for scheme in ["bearer", "BEARER", "bEaReR"] {
        let request = RawRequest::get("/ok").header("Authorization", &format!("{scheme} {token}"));
        case.check(scheme, 200, proxy.status(&request).await);
    }
    Ok(())
}

/// AUTHN-06: two Authorization headers are rejected, because the upstream could trust the other one.
pub async fn two_authorization_headers_are_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token).header("Authorization", "Bearer other");
    case.check("good and bad", 400, proxy.status(&request).await);
    let request = RawRequest::get("/ok").header("Authorization", "Bearer other").token(token);
    case.check("bad and good", 400, proxy.status(&request).await);
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// AUTHN-07: with --auth-token-audiences, a token for another audience is rejected.
pub async fn token_for_other_audience_is_rejected(case: &Case<'_>) -> TestResult {
    let plain = case.fixture.caller_token().await?;
    let own = case.fixture.issue_token("caller", &["proxy.test"]).await?;
    let other = case.fixture.issue_token("caller", &["other.test"]).await?;
    let proxy = case.proxy().flag("--auth-token-audiences=another.test,proxy.test").start().await?;
    case.check("of the configured audience", 200, proxy.status(&RawRequest::get("/ok").token(&own)).await);
    case.check("of another audience", 401, proxy.status(&RawRequest::get("/ok").token(&other)).await);
    case.check("of the API server", 401, proxy.status(&RawRequest::get("/ok").token(plain)).await);
    let proxy = case.proxy().start().await?;
    case.check(
        "of another audience, without configured audiences",
        401,
        proxy.status(&RawRequest::get("/ok").token(&own)).await,
    );
    Ok(())
}

/// AUTHN-08: a TokenReview that returns no audiences, or only others, is rejected.
pub async fn review_without_audiences_is_rejected(case: &Case<'_>) -> TestResult {
    case.fixture.caller_token().await?;
    let own = case.fixture.issue_token("caller", &["proxy.test"]).await?;
    let faults = case.faults().await?;
    let remove_audiences = ResponseRewrite::new(|review| {
        if let Some(status) = review["status"].as_object_mut() {
            status.remove("audiences");
        }
    });
    faults.inject(Fault::RewriteResponse(remove_audiences), token_reviews(), Times::Always);
    let builder = case.proxy().api_server(faults.url())?.flag("--auth-token-audiences=proxy.test");
    let proxy = builder.start().await?;
    case.check("the answer", 401, proxy.status(&RawRequest::get("/ok").token(&own)).await);
    let wrong_audience = ResponseRewrite::new(|review| review["status"]["audiences"] = json!(["other.test"]));
    let faults = case.faults().await?;
    faults.inject(Fault::RewriteResponse(wrong_audience), token_reviews(), Times::Always);
    let builder = case.proxy().api_server(faults.url())?.flag("--auth-token-audiences=proxy.test");
    let proxy = builder.start().await?;
    case.check("other audiences in the review", 401, proxy.status(&RawRequest::get("/ok").token(&own)).await);
    Ok(())
}

/// AUTHN-09: a TokenReview that does not authenticate the token, with or without an error, returns 401.
pub async fn unauthenticated_review_returns_401(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    for (name, status) in [
        ("without an error", json!({ "authenticated": false })),
        ("with an error", json!({ "authenticated": false, "error": "no" })),
        ("empty status", json!({})),
    ] {
        let faults = case.faults().await?;
        let deny = ResponseRewrite::new(move |review| review["status"] = status.clone());
        let denial = faults.inject(Fault::RewriteResponse(deny), token_reviews(), Times::Always);
        let proxy = case.proxy().api_server(faults.url())?.start().await?;
        case.check(name, 401, proxy.status(&RawRequest::get("/ok").token(token)).await);
        case.check(&format!("{name}: token reviews"), 1, denial.fired());
    }
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// AUTHN-10: a TokenReview that fails once is retried.
pub async fn failed_token_review_is_retried(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    for (name, refusal) in [
        ("500", ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR)),
        ("504", ErrorResponse::new(StatusCode::GATEWAY_TIMEOUT)),
        ("429", ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(1))),
    ] {
        let faults = case.faults().await?;
        let failure = faults.inject(Fault::Respond(refusal), token_reviews(), Times::ONCE);
        let proxy = case.proxy().api_server(faults.url())?.start().await?;
        case.check(name, 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
        case.check(&format!("{name}: faults fired"), 1, failure.fired());
    }
    let faults = case.faults().await?;
    let failure = faults.inject(Fault::Reset, token_reviews(), Times::ONCE);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check("a reset", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    case.check("a reset: faults fired", 1, failure.fired());
    Ok(())
}

/// AUTHN-11: a forbidden TokenReview is not retried.
pub async fn forbidden_token_review_is_not_retried(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    let refusal = ErrorResponse::new(StatusCode::FORBIDDEN);
    let refused = faults.inject(Fault::Respond(refusal), token_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check("the answer", 401, proxy.status(&RawRequest::get("/ok").token(token)).await);
    case.check("token reviews", 1, refused.fired());
    Ok(())
}

/// AUTHN-12: a TokenReview that gets no response times out with 401.
pub async fn unresponsive_api_server_returns_401(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    faults.inject(Fault::Delay(Duration::from_secs(300)), token_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    let start = Instant::now();
    let mut connection = testbed::harness::raw_http::RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    // Longer than one read timeout of the connection: kube-rbac-proxy waits for 30 seconds.
    let mut received = String::new();
    while start.elapsed() < Duration::from_secs(50) && received.is_empty() {
        let (bytes, _) = connection.read_to_end(Duration::from_secs(2)).await;
        received = String::from_utf8_lossy(&bytes).chars().take(12).collect();
    }
    case.check("the answer", "HTTP/1.1 401", received);
    case.check("within 40 s", "yes", if start.elapsed() < Duration::from_secs(40) { "yes" } else { "no" });
    Ok(())
}

/// AUTHN-13: status, body and headers of a 401 response.
pub async fn unauthorized_response_matches_kube_rbac_proxy(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().start().await?;
    let response = proxy.send(&RawRequest::get("/ok").token("garbage")).await?;
    let header = |name: &str| response.header(name).unwrap_or("-").to_owned();
    case.check("code", 401, response.status);
    case.check("text", "Unauthorized\n", response.text());
    case.check("content type", "text/plain; charset=utf-8", header("content-type"));
    case.check("X-Content-Type-Options", "nosniff", header("x-content-type-options"));
    case.check("WWW-Authenticate", "-", header("www-authenticate"));
    Ok(())
}

/// AUTHN-14: an accepted token is neither forwarded nor logged.
pub async fn token_is_neither_forwarded_nor_logged(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flags(&["--ignore-paths=/open", "--v=10"]).start().await?;
    case.check(
        "the answer",
        200,
        proxy.status(&RawRequest::get("/ok").token(token).header("Cookie", "a=b")).await,
    );
    let received = case.upstream.take();
    let header =
        |name: &str| received.first().map_or("nothing came".into(), |request| request.joined_header(name));
    case.check("Authorization", "-", header("authorization"));
    case.check("other headers", "a=b", header("cookie"));
    proxy.status(&RawRequest::get("/open").token(token)).await;
    let signature = token.rsplit('.').next().unwrap_or(token);
    let is_logged = proxy.log().contains(signature);
    case.check("the token in the log", "no", if is_logged { "yes" } else { "no" });
    Ok(())
}
