//! VERB: from methods to verbs.

use testbed::TestResult;

use crate::ask::Ask;
use crate::case::Case;

/// VERB-01: every method; what is not one of five is `*`, which only a rule with `*` allows.
pub async fn methods(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
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
    for (method, _, wanted) in methods {
        let answer = proxy.code(&Ask::new(method, &format!("/ok/{method}")).token(token)).await;
        case.check(&format!("{method}: answer"), wanted, answer);
    }
    let calls = case.ground.calls(1, methods.len()).await?;
    for (method, verb, _) in methods {
        let path = format!("/ok/{method}");
        let attributes = |review: &serde_json::Value| review["spec"]["nonResourceAttributes"].clone();
        let asked = calls.access_reviews.iter().map(attributes).find(|one| one["path"] == path.as_str());
        let asked = asked.map(|one| one["verb"].as_str().unwrap_or_default().to_owned());
        case.check(&format!("{method}: verb"), verb, asked.unwrap_or("not asked".into()));
    }
    let seen: Vec<String> = case.upstream.take().into_iter().map(|one| one.method).collect();
    case.check("what came through", "GET POST PUT PATCH DELETE", seen.join(" "));
    Ok(())
}
