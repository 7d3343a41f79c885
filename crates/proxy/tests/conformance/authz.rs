//! AUTHZ: authorization.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use testbed::TestResult;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, RequestMatcher, Resource, ResponseRewrite, Times};

use crate::case::Case;
use crate::raw_request::RawRequest;

/// Matches SubjectAccessReviews.
pub fn access_reviews() -> RequestMatcher {
    RequestMatcher::any().resource(Resource::new("authorization.k8s.io", "subjectaccessreviews"))
}

/// AUTHZ-01: an allowed request is forwarded.
pub async fn allowed_request_is_forwarded(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let response = proxy.send(&RawRequest::get("/ok").token(token)).await?;
    case.check("the answer", 200, response.status);
    case.check("its text", "upstream\n", response.text());
    Ok(())
}

/// AUTHZ-02: a request without permission gets 403 with user, verb and resource.
pub async fn denied_request_returns_403(case: &Case<'_>) -> TestResult {
    let token = case.fixture.unauthorized_token().await?;
    let proxy = case.proxy().start().await?;
    let response = proxy.send(&RawRequest::get("/ok").token(&token)).await?;
    let user = case.fixture.username("stranger");
    case.check("the answer", 403, response.status);
    case.check(
        "its text",
        format!("Forbidden (user={user}, verb=get, resource=, subresource=)\n"),
        response.text(),
    );
    case.check("content type", "text/plain; charset=utf-8", response.header("content-type").unwrap_or("-"));
    case.check("X-Content-Type-Options", "nosniff", response.header("x-content-type-options").unwrap_or("-"));
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

async fn check_with_review_status(
    case: &Case<'_>,
    name: &str,
    status: serde_json::Value,
    expected: u16,
) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    let alteration = ResponseRewrite::new(move |review| review["status"] = status.clone());
    faults.inject(Fault::RewriteResponse(alteration), access_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check(name, expected, proxy.status(&RawRequest::get("/ok").token(token)).await);
    Ok(())
}

/// AUTHZ-03: an explicit denial by another authorizer returns 403; an evaluation error with a decision does
/// not.
pub async fn explicit_denial_returns_403(case: &Case<'_>) -> TestResult {
    check_with_review_status(
        case,
        "denied",
        json!({ "allowed": false, "denied": true, "reason": "no" }),
        403,
    )
    .await?;
    check_with_review_status(case, "neither allowed nor denied", json!({ "allowed": false }), 403).await?;
    check_with_review_status(
        case,
        "allowed with an evaluation error",
        json!({ "allowed": true, "evaluationError": "half" }),
        200,
    )
    .await
}

/// AUTHZ-04: a review that both allows and denies returns 500.
pub async fn contradictory_review_returns_500(case: &Case<'_>) -> TestResult {
    check_with_review_status(case, "the answer", json!({ "allowed": true, "denied": true }), 500).await
}

/// AUTHZ-05: a failing SubjectAccessReview is retried and then returns 500.
pub async fn failed_access_review_returns_500(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    let refusal = ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR);
    let failure = faults.inject(Fault::Respond(refusal), access_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    let response = proxy.send(&RawRequest::get("/ok").token(token)).await?;
    let user = case.fixture.username("caller");
    case.check("the answer", 500, response.status);
    case.check(
        "its text",
        format!("Authorization error (user={user}, verb=get, resource=, subresource=)\n"),
        response.text(),
    );
    case.check("retried", "yes", if failure.fired() > 1 { "yes" } else { "no" });
    failure.remove();
    case.check("afterwards", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    let faults = case.faults().await?;
    faults.inject(Fault::Respond(ErrorResponse::new(StatusCode::FORBIDDEN)), access_reviews(), Times::Always);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check("a forbidden review", 500, proxy.status(&RawRequest::get("/ok").token(token)).await);
    Ok(())
}

/// AUTHZ-06: a 429 response with Retry-After is retried.
pub async fn retry_after_is_honored(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let faults = case.faults().await?;
    let refusal = ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(1));
    let busy = faults.inject(Fault::Respond(refusal), access_reviews(), Times::ONCE);
    let proxy = case.proxy().api_server(faults.url())?.start().await?;
    case.check("the answer", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    case.check("faults fired", 1, busy.fired());
    Ok(())
}

/// AUTHZ-07: a static rule authorizes without a SubjectAccessReview, and only what it names; invalid rules
/// prevent startup.
pub async fn static_rules_need_no_review(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let user = case.fixture.username("caller");
    let config = format!(
        "authorization:\n  static:\n  - path: /metrics\n    resourceRequest: false\n  - user:\n      name: {user}\n    verb: create\n    path: /own\n"
    );
    let proxy = case.proxy().config(&config)?.start().await?;
    case.check("a path for all users", 200, proxy.status(&RawRequest::get("/metrics").token(token)).await);
    case.check("a path for one user", 200, proxy.status(&RawRequest::post("/own", b"").token(token)).await);
    case.check("access reviews", 0, case.fixture.api_calls(1, 0).await?.access_reviews.len());
    case.check("another verb", 403, proxy.status(&RawRequest::get("/own").token(token)).await);
    case.check("a path below", 403, proxy.status(&RawRequest::get("/metrics/x").token(token)).await);
    case.check("without credentials", 401, proxy.status(&RawRequest::get("/metrics")).await);
    case.check("no rule, but allowed by RBAC", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);

    let config = "authorization:\n  resourceAttributes:\n    resource: r\n    namespace: \"{{ .Value }}\"\n  rewrites:\n    byQueryParameter:\n      name: namespace\n  static:\n  - resourceRequest: true\n    resource: r\n    namespace: default\n";
    let proxy = case.proxy().config(config)?.start().await?;
    case.check(
        "a resource",
        200,
        proxy.status(&RawRequest::get("/any?namespace=default").token(token)).await,
    );
    case.check(
        "another namespace",
        403,
        proxy.status(&RawRequest::get("/any?namespace=forbidden").token(token)).await,
    );
    case.check(
        "both namespaces",
        403,
        proxy.status(&RawRequest::get("/any?namespace=default&namespace=forbidden").token(token)).await,
    );

    for (name, rule) in [
        ("a resource rule with a path", "resourceRequest: true\n    path: /x"),
        ("a rule without path or resource", "verb: get"),
    ] {
        let config = format!("authorization:\n  static:\n  - {rule}\n");
        let (outcome, _) = case.proxy().config(&config)?.start_outcome().await?;
        case.check(name, "exit 1", outcome);
    }
    Ok(())
}

/// AUTHZ-08: a static rule with groups matches only their members.
pub async fn static_rule_with_groups_matches_members_only(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let own = format!("system:serviceaccounts:{}", case.fixture.namespace);
    let config = format!(
        "authorization:\n  static:\n  - path: /others\n    user:\n      groups: [\"admins\"]\n  - path: /own\n    user:\n      groups: [\"{own}\"]\n"
    );
    let proxy = case.proxy().config(&config)?.start().await?;
    case.check(
        "a group that one is not of",
        403,
        proxy.status(&RawRequest::get("/others").token(token)).await,
    );
    case.check("a group of the user", 200, proxy.status(&RawRequest::get("/own").token(token)).await);
    Ok(())
}
