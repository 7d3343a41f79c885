//! AUTHZ: what is allowed.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use testbed::TestResult;
use testbed::faults::fault_proxy::{Alteration, Fault, Matching, Refusal, Resource, Times};

use crate::ask::Ask;
use crate::case::Case;

/// Calls that ask about access.
pub fn access_reviews() -> Matching {
    Matching::any().resource(Resource::new("authorization.k8s.io", "subjectaccessreviews"))
}

/// AUTHZ-01.
pub async fn allowed(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let answer = proxy.ask(&Ask::get("/ok").token(token)).await?;
    case.check("the answer", 200, answer.status);
    case.check("its text", "upstream\n", answer.text());
    Ok(())
}

/// AUTHZ-02: no opinion is a refusal, and says of whom and what.
pub async fn not_allowed(case: &Case<'_>) -> TestResult {
    let token = case.ground.stranger().await?;
    let proxy = case.proxy().start().await?;
    let answer = proxy.ask(&Ask::get("/ok").token(&token)).await?;
    let user = case.ground.name_of("stranger");
    case.check("the answer", 403, answer.status);
    case.check(
        "its text",
        format!("Forbidden (user={user}, verb=get, resource=, subresource=)\n"),
        answer.text(),
    );
    case.check("content type", "text/plain; charset=utf-8", answer.header("content-type").unwrap_or("-"));
    case.check("sniffing", "nosniff", answer.header("x-content-type-options").unwrap_or("-"));
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

async fn altered(case: &Case<'_>, name: &str, status: serde_json::Value, wanted: u16) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    let alteration = Alteration::by(move |review| review["status"] = status.clone());
    faults.inject(Fault::Alter(alteration), access_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check(name, wanted, proxy.code(&Ask::get("/ok").token(token)).await);
    Ok(())
}

/// AUTHZ-03: a denial of an authorizer other than RBAC.
pub async fn denied(case: &Case<'_>) -> TestResult {
    altered(case, "denied", json!({ "allowed": false, "denied": true, "reason": "no" }), 403).await?;
    altered(case, "neither", json!({ "allowed": false }), 403).await?;
    altered(case, "an error with a decision", json!({ "allowed": true, "evaluationError": "half" }), 200)
        .await
}

/// AUTHZ-04: allowed and denied at once is no decision.
pub async fn both(case: &Case<'_>) -> TestResult {
    altered(case, "the answer", json!({ "allowed": true, "denied": true }), 500).await
}

/// AUTHZ-05: an API server that cannot decide.
pub async fn a_failure(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    let refusal = Refusal::of(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = faults.inject(Fault::Answer(refusal), access_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    let answer = proxy.ask(&Ask::get("/ok").token(token)).await?;
    let user = case.ground.name_of("caller");
    case.check("the answer", 500, answer.status);
    case.check(
        "its text",
        format!("Authorization error (user={user}, verb=get, resource=, subresource=)\n"),
        answer.text(),
    );
    case.check("it was tried again", "yes", if failing.fired() > 1 { "yes" } else { "no" });
    failing.lift();
    case.check("afterwards", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    let faults = case.faults().await?;
    faults.inject(Fault::Answer(Refusal::of(StatusCode::FORBIDDEN)), access_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("a refusal", 500, proxy.code(&Ask::get("/ok").token(token)).await);
    Ok(())
}

/// AUTHZ-06: an API server that asks to be left alone for a while.
pub async fn too_many_requests(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    let refusal = Refusal::of(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(1));
    let busy = faults.inject(Fault::Answer(refusal), access_reviews(), Times::ONCE);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("the answer", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    case.check("it happened", 1, busy.fired());
    Ok(())
}

/// AUTHZ-07: what a rule of the file allows is asked of nobody.
pub async fn rules_of_the_file(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let user = case.ground.name_of("caller");
    let config = format!(
        "authorization:\n  static:\n  - path: /metrics\n    resourceRequest: false\n  - user:\n      name: {user}\n    verb: create\n    path: /own\n"
    );
    let proxy = case.proxy().config(&config)?.start().await?;
    case.check("a path for everybody", 200, proxy.code(&Ask::get("/metrics").token(token)).await);
    case.check("one's own", 200, proxy.code(&Ask::post("/own", b"").token(token)).await);
    case.check("access reviews", 0, case.ground.calls(1, 0).await?.access_reviews.len());
    case.check("another verb", 403, proxy.code(&Ask::get("/own").token(token)).await);
    case.check("no glob", 403, proxy.code(&Ask::get("/metrics/x").token(token)).await);
    case.check("nobody", 401, proxy.code(&Ask::get("/metrics")).await);
    case.check("no rule, but a permission", 200, proxy.code(&Ask::get("/ok").token(token)).await);

    let config = "authorization:\n  resourceAttributes:\n    resource: r\n    namespace: \"{{ .Value }}\"\n  rewrites:\n    byQueryParameter:\n      name: namespace\n  static:\n  - resourceRequest: true\n    resource: r\n    namespace: default\n";
    let proxy = case.proxy().config(config)?.start().await?;
    case.check("a resource", 200, proxy.code(&Ask::get("/any?namespace=default").token(token)).await);
    case.check(
        "another namespace",
        403,
        proxy.code(&Ask::get("/any?namespace=forbidden").token(token)).await,
    );
    case.check(
        "both",
        403,
        proxy.code(&Ask::get("/any?namespace=default&namespace=forbidden").token(token)).await,
    );

    for (name, rule) in [
        ("a path of a resource", "resourceRequest: true\n    path: /x"),
        ("nothing of no resource", "verb: get"),
    ] {
        let config = format!("authorization:\n  static:\n  - {rule}\n");
        let (outcome, _) = case.proxy().config(&config)?.outcome().await?;
        case.check(name, "exit 1", outcome);
    }
    Ok(())
}

/// AUTHZ-08: groups of a rule are looked at (W9).
pub async fn groups_of_a_rule(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let own = format!("system:serviceaccounts:{}", case.ground.namespace);
    let config = format!(
        "authorization:\n  static:\n  - path: /others\n    user:\n      groups: [\"admins\"]\n  - path: /own\n    user:\n      groups: [\"{own}\"]\n"
    );
    let proxy = case.proxy().config(&config)?.start().await?;
    case.check("a group that one is not of", 403, proxy.code(&Ask::get("/others").token(token)).await);
    case.check("a group that one is of", 200, proxy.code(&Ask::get("/own").token(token)).await);
    Ok(())
}
