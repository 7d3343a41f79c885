//! VERB: the mapping of HTTP methods to verbs.

use testbed::TestResult;

use crate::case::Case;
use crate::raw_request::RawRequest;

/// VERB-01: five methods map to verbs; every other method is reviewed as `*`, which only a rule with `*`
/// allows.
pub async fn methods_map_to_verbs(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let methods = [
        ("GET", "get", 200),
        ("POST", "create", 200),
        ("PUT", "update", 200),
        ("PATCH", "patch", 200),
        ("DELETE", "delete", 200),
        ("HEAD", "*", 403),
        ("OPTIONS", "*", 403),
        ("TRACE", "*", 403),
        ("PROPFIND", "*", 403),
        ("get", "*", 403),
        ("Get", "*", 403),
    ];
    for (method, _, expected) in methods {
        let response = proxy.status(&RawRequest::new(method, &format!("/ok/{method}")).token(token)).await;
        case.check(&format!("{method}: status"), expected, response);
    }
    let calls = case.fixture.api_calls(1, methods.len()).await?;
    for (method, verb, _) in methods {
        let path = format!("/ok/{method}");
        let attributes = |review: &serde_json::Value| review["spec"]["nonResourceAttributes"].clone();
        let review =
            calls.access_reviews.iter().map(attributes).find(|review| review["path"] == path.as_str());
        let actual = review.map(|review| review["verb"].as_str().unwrap_or_default().to_owned());
        case.check(&format!("{method}: verb"), verb, actual.unwrap_or("no review".into()));
    }
    let received: Vec<String> = case.upstream.take().into_iter().map(|request| request.method).collect();
    case.check("forwarded methods", "GET POST PUT PATCH DELETE", received.join(" "));
    Ok(())
}
