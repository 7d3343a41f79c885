//! CFG: the configuration file.

use serde_json::{Value, json};
use testbed::TestResult;

use crate::case::Case;
use crate::raw_request::RawRequest;

/// Returns the attributes of the access review with a number, as JSON with sorted keys.
pub async fn reviewed_attributes(case: &Case<'_>, number: usize) -> Result<String, testbed::Error> {
    let calls = case.fixture.api_calls(1, number).await?;
    let Some(review) = calls.access_reviews.get(number - 1) else { return Ok("no review".into()) };
    let spec = &review["spec"];
    let attributes = if spec["resourceAttributes"].is_null() {
        &spec["nonResourceAttributes"]
    } else {
        &spec["resourceAttributes"]
    };
    Ok(attributes.to_string())
}

fn node_pod_config(namespace: &str) -> String {
    format!(
        "authorization:\n  resourceAttributes:\n    apiGroup: sei.io\n    resource: seinodetasks\n    namespace: {namespace}\n    name: node-0\n"
    )
}

/// CFG-01: every resource attribute is part of the SubjectAccessReview, and the configuration of node pods
/// works with real RBAC.
pub async fn all_resource_attributes_are_reviewed(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let caller = case.fixture.username("caller");
    let config = "authorization:\n  resourceAttributes:\n    namespace: ns\n    apiGroup: g.test\n    apiVersion: v7\n    resource: r\n    subresource: s\n    name: node-0\n";
    let proxy = case.proxy().config(config)?.start().await?;
    let response = proxy.send(&RawRequest::post("/any", b"x").token(token)).await?;
    let expected = json!({ "group": "g.test", "name": "node-0", "namespace": "ns", "resource": "r", "subresource": "s",
                         "verb": "create", "version": "v7" });
    case.check("all six attributes", expected, reviewed_attributes(case, 1).await?);
    case.check("the status", 403, response.status);
    let text = format!("Forbidden (user={caller}, verb=create, resource=r, subresource=s)\n");
    case.check("its text", text, response.text());

    case.fixture.grant_resource(&caller, "sei.io", "seinodetasks", &["get", "create"]).await?;
    let proxy = case
        .proxy()
        .config(&node_pod_config(&case.fixture.namespace))?
        .flags(&[
            "--ignore-paths=/v0/healthz,/v0/startupz,/v0/livez,/v0/metrics",
            "--auth-header-fields-enabled=true",
            "--v=0",
        ])
        .start()
        .await?;
    case.check("GET of a task", 200, proxy.status(&RawRequest::get("/v0/tasks/1").token(token)).await);
    case.check("POST of a task", 200, proxy.status(&RawRequest::post("/v0/tasks", b"{}").token(token)).await);
    case.check(
        "DELETE of a task",
        403,
        proxy.status(&RawRequest::new("DELETE", "/v0/tasks/1").token(token)).await,
    );
    case.check(
        "an ignored path without credentials",
        200,
        proxy.status(&RawRequest::get("/v0/healthz")).await,
    );
    case.check("another path without credentials", 401, proxy.status(&RawRequest::get("/v0/tasks")).await);
    Ok(())
}

/// CFG-02: the key is `apiGroup`; `group` is ignored and authorizes no caller.
pub async fn group_key_is_ignored(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.fixture.grant_resource(&case.fixture.username("caller"), "sei.io", "seinodetasks", &["get"]).await?;
    let config = node_pod_config("ns").replace("apiGroup", "group");
    let proxy = case.proxy().config(&config)?.start().await?;
    case.check("with group", 403, proxy.status(&RawRequest::get("/any").token(token)).await);
    let expected = json!({ "name": "node-0", "namespace": "ns", "resource": "seinodetasks", "verb": "get" });
    case.check("the attributes", expected, reviewed_attributes(case, 1).await?);
    let proxy = case.proxy().config(&node_pod_config("ns"))?.start().await?;
    case.check("with apiGroup", 200, proxy.status(&RawRequest::get("/any").token(token)).await);
    Ok(())
}

/// CFG-03: keys match in any case, and JSON is accepted.
pub async fn keys_are_case_insensitive(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let config =
        "Authorization:\n  RESOURCEATTRIBUTES:\n    APIGROUP: g.test\n    Resource: r\n    verb: ignored\n";
    let proxy = case.proxy().config(config)?.start().await?;
    proxy.status(&RawRequest::get("/any").token(token)).await;
    let expected = json!({ "group": "g.test", "resource": "r", "verb": "get" });
    case.check("the attributes", &expected, reviewed_attributes(case, 1).await?);
    let config =
        json!({ "authorization": { "resourceAttributes": { "apiGroup": "g.test", "resource": "r2" } } });
    let proxy = case.proxy().config(&config.to_string())?.start().await?;
    proxy.status(&RawRequest::get("/any").token(token)).await;
    let expected = json!({ "group": "g.test", "resource": "r2", "verb": "get" });
    case.check("the attributes of a JSON file", expected, reviewed_attributes(case, 2).await?);
    Ok(())
}

/// CFG-04: a configuration without `authorization` either serves with defaults or exits with an error, and
/// never panics.
pub async fn empty_config_does_not_crash(case: &Case<'_>) -> TestResult {
    for (name, text) in
        [("an empty file", ""), ("another key", "other: {}\n"), ("a null", "authorization:\n")]
    {
        let (outcome, log) = case.proxy().config(text)?.start_outcome().await?;
        let is_clean = ["serves", "exit 1"].contains(&outcome.as_str()) && !log.contains("panic");
        case.check(name, "no crash", if is_clean { "no crash" } else { "crash" });
    }
    Ok(())
}

/// CFG-05: rewrites without resource attributes have no effect: the path is reviewed.
pub async fn rewrites_without_attributes_review_the_path(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let config = "authorization:\n  rewrites:\n    byQueryParameter:\n      name: ns\n";
    let (outcome, _) = case.proxy().config(config)?.start_outcome().await?;
    case.check("it starts", "serves", &outcome);
    if outcome == "serves" {
        let proxy = case.proxy().config(config)?.start().await?;
        let request = RawRequest::get("/ok?ns=a").token(token);
        case.check("a permitted request", 200, proxy.status(&request).await);
        case.check(
            "the attributes",
            json!({ "path": "/ok", "verb": "get" }),
            reviewed_attributes(case, 1).await?,
        );
    }
    Ok(())
}

/// CFG-06: templates accept text around the value and any spacing, in every attribute.
pub async fn templates_expand_in_every_attribute(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let config = "authorization:\n  rewrites:\n    byQueryParameter:\n      name: tenant\n  resourceAttributes:\n    namespace: \"team-{{ .Value }}-x\"\n    apiGroup: \"{{.Value}}\"\n    resource: r\n    subresource: \"{{  .Value  }}{{ .Value }}\"\n    name: plain\n";
    let proxy = case.proxy().config(config)?.start().await?;
    proxy.status(&RawRequest::get("/any?tenant=a%20b").token(token)).await;
    let expected = json!({ "group": "a b", "name": "plain", "namespace": "team-a b-x", "resource": "r",
                         "subresource": "a ba b", "verb": "get" });
    case.check("the attributes", expected, reviewed_attributes(case, 1).await?);
    Ok(())
}

/// CFG-07: an invalid template prevents startup instead of failing requests.
pub async fn invalid_template_is_rejected(case: &Case<'_>) -> TestResult {
    for (name, template) in [
        ("unclosed", "{{ .Value"),
        ("a function", "{{ printf \\\"%s\\\" .Value }}"),
        ("another field", "{{ .Other }}"),
    ] {
        let config = format!(
            "authorization:\n  rewrites:\n    byQueryParameter:\n      name: tenant\n  resourceAttributes:\n    resource: r\n    namespace: \"{template}\"\n"
        );
        let (outcome, _) = case.proxy().config(&config)?.start_outcome().await?;
        case.check(name, "exit 1", outcome);
    }
    Ok(())
}

/// CFG-08: names that YAML 1.1 reads as booleans or numbers stay strings.
pub async fn yaml_1_1_scalars_are_strings(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    for (number, (scalar, expected)) in [
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("1e3", "1e3"),
        ("0123", "0123"),
        ("12", "12"),
        ("null-1", "null-1"),
    ]
    .into_iter()
    .enumerate()
    {
        let config = format!("authorization:\n  resourceAttributes:\n    resource: r\n    name: {scalar}\n");
        let proxy = case.proxy().config(&config)?.start().await?;
        proxy.status(&RawRequest::get("/any").token(token)).await;
        let received: Value =
            serde_json::from_str(&reviewed_attributes(case, number + 1).await?).unwrap_or_default();
        case.check(scalar, expected, received["name"].as_str().unwrap_or("none"));
    }
    Ok(())
}
