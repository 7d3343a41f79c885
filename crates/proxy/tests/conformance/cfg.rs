//! CFG: the configuration file.

use serde_json::{Value, json};
use testbed::TestResult;

use crate::ask::Ask;
use crate::case::Case;

/// What the last access review asked about, as text with sorted keys.
pub async fn asked(case: &Case<'_>, number: usize) -> Result<String, testbed::Error> {
    let calls = case.ground.calls(1, number).await?;
    let Some(review) = calls.access_reviews.get(number - 1) else { return Ok("not asked".into()) };
    let spec = &review["spec"];
    let attributes = if spec["resourceAttributes"].is_null() {
        &spec["nonResourceAttributes"]
    } else {
        &spec["resourceAttributes"]
    };
    Ok(attributes.to_string())
}

fn tasks(namespace: &str) -> String {
    format!(
        "authorization:\n  resourceAttributes:\n    apiGroup: sei.io\n    resource: seinodetasks\n    namespace: {namespace}\n    name: node-0\n"
    )
}

/// CFG-01: every field of the attributes is asked about, and the profile of node pods works with real permissions.
pub async fn every_field(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let caller = case.ground.name_of("caller");
    let config = "authorization:\n  resourceAttributes:\n    namespace: ns\n    apiGroup: g.test\n    apiVersion: v7\n    resource: r\n    subresource: s\n    name: node-0\n";
    let proxy = case.proxy().config(config)?.start().await?;
    let answer = proxy.ask(&Ask::post("/any", b"x").token(token)).await?;
    let wanted = json!({ "group": "g.test", "name": "node-0", "namespace": "ns", "resource": "r", "subresource": "s",
                         "verb": "create", "version": "v7" });
    case.check("all six", wanted, asked(case, 1).await?);
    case.check("the refusal", 403, answer.status);
    let text = format!("Forbidden (user={caller}, verb=create, resource=r, subresource=s)\n");
    case.check("its text", text, answer.text());

    case.ground.grant_resource(&caller, "sei.io", "seinodetasks", &["get", "create"]).await?;
    let proxy = case
        .proxy()
        .config(&tasks(&case.ground.namespace))?
        .flags(&[
            "--ignore-paths=/v0/healthz,/v0/startupz,/v0/livez,/v0/metrics",
            "--auth-header-fields-enabled=true",
            "--v=0",
        ])
        .start()
        .await?;
    case.check("GET of a task", 200, proxy.code(&Ask::get("/v0/tasks/1").token(token)).await);
    case.check("POST of a task", 200, proxy.code(&Ask::post("/v0/tasks", b"{}").token(token)).await);
    case.check("DELETE of a task", 403, proxy.code(&Ask::new("DELETE", "/v0/tasks/1").token(token)).await);
    case.check("a probe without credentials", 200, proxy.code(&Ask::get("/v0/healthz")).await);
    case.check("anything else without credentials", 401, proxy.code(&Ask::get("/v0/tasks")).await);
    Ok(())
}

/// CFG-02: the key is `apiGroup`; `group` is another one, and nobody is allowed by it.
pub async fn group_is_no_key(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.ground.grant_resource(&case.ground.name_of("caller"), "sei.io", "seinodetasks", &["get"]).await?;
    let config = tasks("ns").replace("apiGroup", "group");
    let proxy = case.proxy().config(&config)?.start().await?;
    case.check("with group", 403, proxy.code(&Ask::get("/any").token(token)).await);
    let wanted = json!({ "name": "node-0", "namespace": "ns", "resource": "seinodetasks", "verb": "get" });
    case.check("what is asked", wanted, asked(case, 1).await?);
    let proxy = case.proxy().config(&tasks("ns"))?.start().await?;
    case.check("with apiGroup", 200, proxy.code(&Ask::get("/any").token(token)).await);
    Ok(())
}

/// CFG-03: keys are the same in any case, and JSON is YAML.
pub async fn any_case_of_keys(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let config =
        "Authorization:\n  RESOURCEATTRIBUTES:\n    APIGROUP: g.test\n    Resource: r\n    verb: ignored\n";
    let proxy = case.proxy().config(config)?.start().await?;
    proxy.code(&Ask::get("/any").token(token)).await;
    let wanted = json!({ "group": "g.test", "resource": "r", "verb": "get" });
    case.check("what is asked", &wanted, asked(case, 1).await?);
    let config =
        json!({ "authorization": { "resourceAttributes": { "apiGroup": "g.test", "resource": "r2" } } });
    let proxy = case.proxy().config(&config.to_string())?.start().await?;
    proxy.code(&Ask::get("/any").token(token)).await;
    let wanted = json!({ "group": "g.test", "resource": "r2", "verb": "get" });
    case.check("what is asked by JSON", wanted, asked(case, 2).await?);
    Ok(())
}

/// CFG-04: a file that says nothing is no crash: either nothing is configured, or the program ends with a word about it.
pub async fn no_authorization(case: &Case<'_>) -> TestResult {
    for (name, text) in
        [("an empty file", ""), ("another key", "other: {}\n"), ("a null", "authorization:\n")]
    {
        let (outcome, said) = case.proxy().config(text)?.outcome().await?;
        let clean = ["serves", "exit 1"].contains(&outcome.as_str()) && !said.contains("panic");
        case.check(name, "no crash", if clean { "no crash" } else { "crash" });
    }
    Ok(())
}

/// CFG-05.
pub async fn rewrites_without_attributes(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let config = "authorization:\n  rewrites:\n    byQueryParameter:\n      name: ns\n";
    let (outcome, said) = case.proxy().config(config)?.outcome().await?;
    case.check("it starts", "serves", &outcome);
    if outcome == "serves" {
        let proxy = case.proxy().config(config)?.start().await?;
        let asking = Ask::get("/ok?ns=a").token(token);
        case.check("a permitted request", 200, proxy.code(&asking).await);
        case.check("what is asked", json!({ "path": "/ok", "verb": "get" }), asked(case, 1).await?);
    }
    let _ = said;
    Ok(())
}

/// CFG-06: text around the value, any spacing in the braces, and every field.
pub async fn templates(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let config = "authorization:\n  rewrites:\n    byQueryParameter:\n      name: tenant\n  resourceAttributes:\n    namespace: \"team-{{ .Value }}-x\"\n    apiGroup: \"{{.Value}}\"\n    resource: r\n    subresource: \"{{  .Value  }}{{ .Value }}\"\n    name: plain\n";
    let proxy = case.proxy().config(config)?.start().await?;
    proxy.code(&Ask::get("/any?tenant=a%20b").token(token)).await;
    let wanted = json!({ "group": "a b", "name": "plain", "namespace": "team-a b-x", "resource": "r",
                         "subresource": "a ba b", "verb": "get" });
    case.check("what is asked", wanted, asked(case, 1).await?);
    Ok(())
}

/// CFG-07: what is no template is refused when the program starts, not when somebody asks.
pub async fn bad_template(case: &Case<'_>) -> TestResult {
    for (name, template) in [
        ("unclosed", "{{ .Value"),
        ("a function", "{{ printf \\\"%s\\\" .Value }}"),
        ("another field", "{{ .Other }}"),
    ] {
        let config = format!(
            "authorization:\n  rewrites:\n    byQueryParameter:\n      name: tenant\n  resourceAttributes:\n    resource: r\n    namespace: \"{template}\"\n"
        );
        let (outcome, _) = case.proxy().config(&config)?.outcome().await?;
        case.check(name, "exit 1", outcome);
    }
    Ok(())
}

/// CFG-08: names that other readers of YAML take for something else are legal names.
pub async fn scalars(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    for (number, (scalar, wanted)) in [
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
        proxy.code(&Ask::get("/any").token(token)).await;
        let seen: Value = serde_json::from_str(&asked(case, number + 1).await?).unwrap_or_default();
        case.check(scalar, wanted, seen["name"].as_str().unwrap_or("none"));
    }
    Ok(())
}
