//! CACHE: cached reviews.

use std::time::{Duration, Instant};

use testbed::TestResult;
use testbed::faults::fault_proxy::{Fault, Times};
use testbed::harness::wait;

use crate::authn::token_reviews;
use crate::authz::access_reviews;
use crate::case::Case;
use crate::proxy::{Proxy, status_text};
use crate::raw_request::RawRequest;

/// Deadline for RBAC to apply a revoked permission.
const REVOKED_WITHIN: Duration = Duration::from_secs(20);

/// Returns the value if it does not change until the deadline, or an error with the other value.
async fn stays(value: &str, deadline: Instant, observe: impl AsyncFn() -> String) -> String {
    let time = deadline.saturating_duration_since(Instant::now());
    let received = wait::throughout(value, time, || async {
        let received = observe().await;
        if received == value { Ok(()) } else { Err(received) }
    });
    received.await.map_or_else(|error| error.to_string(), |()| value.to_owned())
}

/// Returns the value if it is observed before the deadline, or an error with the last other value.
async fn becomes(value: &str, deadline: Instant, observe: impl AsyncFn() -> String) -> String {
    let time = deadline.saturating_duration_since(Instant::now());
    let received = wait::until(value, time, || async {
        let received = observe().await;
        if received == value { Ok(()) } else { Err(received) }
    });
    received.await.map_or_else(|error| error.to_string(), |()| value.to_owned())
}

/// CACHE-01: repeated requests cause one TokenReview and one SubjectAccessReview.
pub async fn repeated_requests_are_reviewed_once(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for _ in 0..20 {
        assert_eq!(proxy.status(&RawRequest::get("/ok").token(token)).await, "200");
    }
    let calls = case.fixture.api_calls(1, 1).await?;
    case.check("token reviews", 1, calls.token_reviews);
    case.check("access reviews", 1, calls.access_reviews.len());
    Ok(())
}

/// CACHE-02: an authenticated token is reviewed again after two minutes.
pub async fn token_reviews_expire_after_2m(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let start = Instant::now();
    let token_reviews = async || {
        assert_eq!(proxy.status(&RawRequest::get("/ok").token(token)).await, "200");
        case.fixture
            .api_calls(1, 1)
            .await
            .map_or_else(|error| error.to_string(), |calls| calls.token_reviews.to_string())
    };
    case.check("for 105 s", 1, stays("1", start + Duration::from_secs(105), &token_reviews).await);
    case.check("by 125 s", 2, becomes("2", start + Duration::from_secs(125), &token_reviews).await);
    Ok(())
}

/// CACHE-03: a denied decision is cached for 30 seconds.
pub async fn denied_decisions_expire_after_30s(case: &Case<'_>) -> TestResult {
    let token = case.fixture.unauthorized_token().await?;
    let proxy = case.proxy().start().await?;
    let start = Instant::now();
    let response = async || proxy.status(&RawRequest::get("/late").token(&token)).await;
    assert_eq!(response().await, "403");
    case.fixture.grant_paths(&case.fixture.username("stranger"), &["/late"], &["get"]).await?;
    case.check("for 20 s", 403, stays("403", start + Duration::from_secs(20), &response).await);
    case.check("by 32 s", 200, becomes("200", start + Duration::from_secs(32), &response).await);
    Ok(())
}

/// CACHE-04: an allowed decision is cached for five minutes.
pub async fn allowed_decisions_expire_after_5m(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let start = Instant::now();
    let response = async || proxy.status(&RawRequest::get("/ok").token(token)).await;
    assert_eq!(response().await, "200");
    case.fixture.revoke_all().await?;
    wait::until("the revoked permission", REVOKED_WITHIN, || async {
        let received = proxy.status(&RawRequest::get("/ok/other").token(token)).await;
        if received == "403" { Ok(()) } else { Err(received) }
    })
    .await?;
    case.check("for 285 s", 200, stays("200", start + Duration::from_secs(285), &response).await);
    case.check("by 303 s", 403, becomes("403", start + Duration::from_secs(303), &response).await);
    Ok(())
}

/// CACHE-05: a rejected token is cached for a short time; a failed review is not cached.
pub async fn rejected_tokens_are_cached_but_failures_are_not(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    // A well-formed token, which cannot be rejected without a TokenReview. The first letter of the signature differs,
    // because some bits of the last one are insignificant.
    let (signed, signature) = token.rsplit_once('.').expect("a token has a signature");
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let invalid = format!("{signed}.{first}{}", &signature[1..]);
    for _ in 0..5 {
        assert_eq!(proxy.status(&RawRequest::get("/ok").token(&invalid)).await, "401");
    }
    case.check(
        "token reviews for five times the same garbage",
        1,
        case.fixture.api_calls(1, 0).await?.token_reviews,
    );

    let faults = case.faults().await?;
    let refusal = testbed::faults::fault_proxy::ErrorResponse::new(http::StatusCode::FORBIDDEN);
    let outage = faults.inject(Fault::Respond(refusal), token_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check(
        "while TokenReviews are forbidden",
        401,
        proxy.status(&RawRequest::get("/ok").token(token)).await,
    );
    outage.remove();
    case.check("afterwards", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    Ok(())
}

/// Sends a request `count` times concurrently and returns the distinct statuses.
async fn send_concurrently(proxy: &Proxy, request: &RawRequest, count: usize) -> String {
    let all = futures_util::future::join_all((0..count).map(|_| proxy.send(request))).await;
    let mut codes: Vec<String> = all.iter().map(status_text).collect();
    codes.sort();
    codes.dedup();
    codes.join(" ")
}

/// CACHE-06: concurrent requests with one token share one TokenReview.
pub async fn concurrent_requests_share_token_review(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    faults.inject(Fault::Delay(Duration::from_millis(500)), token_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check("statuses", 200, send_concurrently(&proxy, &RawRequest::get("/ok").token(token), 15).await);
    case.check("token reviews", 1, case.fixture.api_calls(1, 1).await?.token_reviews);
    Ok(())
}

/// CACHE-07: concurrent requests with the same attributes share one SubjectAccessReview.
pub async fn concurrent_requests_share_access_review(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    faults.inject(Fault::Delay(Duration::from_millis(500)), access_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check("statuses", 200, send_concurrently(&proxy, &RawRequest::get("/ok").token(token), 8).await);
    let calls = case.fixture.api_calls(1, 1).await?.access_reviews.len();
    case.check("access reviews", "one", if calls == 1 { "one" } else { "several" });
    Ok(())
}

/// CACHE-08: a new token of the same account is reviewed separately, and so is its access.
pub async fn new_token_is_reviewed_separately(case: &Case<'_>) -> TestResult {
    let first = case.fixture.caller_token().await?;
    let second = case.fixture.issue_token("caller", &[]).await?;
    let proxy = case.proxy().start().await?;
    for token in [first, &second, first, &second] {
        assert_eq!(proxy.status(&RawRequest::get("/ok").token(token)).await, "200");
    }
    let calls = case.fixture.api_calls(2, 2).await?;
    case.check("token reviews", 2, calls.token_reviews);
    case.check("access reviews", 2, calls.access_reviews.len());
    Ok(())
}
