//! ATTR: the attributes of SubjectAccessReviews.

use serde_json::{Value, json};
use testbed::TestResult;

use crate::case::Case;
use crate::cfg::reviewed_attributes;
use crate::raw_request::RawRequest;

/// Returns a configuration that takes the namespace from the request.
fn rewrite_config(source: &str) -> String {
    format!(
        "authorization:\n  rewrites:\n{source}  resourceAttributes:\n    resource: r\n    namespace: \"{{{{ .Value }}}}\"\n"
    )
}

const BY_QUERY: &str = "    byQueryParameter:\n      name: ns\n";
const BY_HEADER: &str = "    byHttpHeader:\n      name: X-Tenant\n";

/// Returns the namespaces of the reviews from index `from` on.
async fn namespaces(case: &Case<'_>, from: usize, count: usize) -> Result<String, testbed::Error> {
    let calls = case.fixture.api_calls(1, from + count).await?;
    let namespace = |review: &Value| {
        let attributes = &review["spec"]["resourceAttributes"];
        attributes["namespace"].as_str().unwrap_or("").to_owned()
    };
    Ok(calls.access_reviews.iter().skip(from).map(namespace).collect::<Vec<_>>().join(" "))
}

/// Allows the caller to get pods in some new namespaces.
async fn grant_in(case: &Case<'_>, namespaces: &[&str]) -> TestResult {
    // A role and its binding require an existing namespace.
    let kubectl = |arguments: &[&str]| -> TestResult {
        let output = case.fixture.plane.kubectl()?.args(arguments).output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
        }
    };
    let user = format!("--user={}", case.fixture.username("caller"));
    for namespace in namespaces {
        let name = format!("{}-{namespace}", case.fixture.namespace);
        kubectl(&["create", "namespace", &name])?;
        kubectl(&["create", "role", "r", "--verb=get", "--resource=pods", "-n", &name])?;
        kubectl(&["create", "rolebinding", "r", "--role=r", &user, "-n", &name])?;
        let namespace = &name;
        testbed::harness::wait::until("the RBAC permission", crate::fixture::SOON, || async {
            let impersonation = format!("--as={}", case.fixture.username("caller"));
            let mut command = case.fixture.plane.kubectl()?;
            let output =
                command.args(["auth", "can-i", "get", "pods", "-n", namespace, &impersonation]).output();
            match output {
                Ok(output) if output.status.success() => Ok(()),
                _ => Err(testbed::Error::Other("not yet".into())),
            }
        })
        .await?;
    }
    Ok(())
}

/// ATTR-01: without resource attributes, the decoded path without its query is reviewed for the
/// authenticated user.
pub async fn path_is_reviewed_without_attributes(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    proxy.status(&RawRequest::get("/some/p%61th%20x?q=1").token(token)).await;
    case.check(
        "the attributes",
        json!({ "path": "/some/path x", "verb": "get" }),
        reviewed_attributes(case, 1).await?,
    );
    let calls = case.fixture.api_calls(1, 1).await?;
    let spec = calls.access_reviews.first().map(|review| review["spec"].clone()).unwrap_or_default();
    case.check("the user", json!(case.fixture.username("caller")), &spec["user"]);
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", case.fixture.namespace),
        "system:authenticated"
    ]);
    case.check("the groups", groups, &spec["groups"]);
    case.check("a uid", true, spec["uid"].is_string());
    let credential = spec["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    case.check("the credential id", true, credential.is_some_and(|id| id.starts_with("JTI=")));
    Ok(())
}

/// ATTR-02: fixed resource attributes are reviewed, and the query does not change them.
pub async fn static_attributes_are_reviewed(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let config = "authorization:\n  resourceAttributes:\n    resource: r\n    namespace: fixed\n";
    let proxy = case.proxy().config(config)?.start().await?;
    proxy.status(&RawRequest::get("/any?ns=other").token(token)).await;
    let expected = json!({ "namespace": "fixed", "resource": "r", "verb": "get" });
    case.check("the attributes", expected, reviewed_attributes(case, 1).await?);
    Ok(())
}

/// ATTR-03: a query parameter fills the template.
pub async fn query_parameter_fills_template(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().config(&rewrite_config(BY_QUERY))?.start().await?;
    proxy.status(&RawRequest::get("/any?x=1&ns=t%65am&y=2").token(token)).await;
    let expected = json!({ "namespace": "team", "resource": "r", "verb": "get" });
    case.check("the attributes", expected, reviewed_attributes(case, 1).await?);
    Ok(())
}

/// ATTR-04: a request without the query parameter is rejected before any SubjectAccessReview.
pub async fn missing_query_parameter_is_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().config(&rewrite_config(BY_QUERY))?.start().await?;
    let response = proxy.send(&RawRequest::get("/any?other=1").token(token)).await?;
    case.check("the answer", 400, response.status);
    case.check("its text", "Bad Request. The request or configuration is malformed.\n", response.text());
    case.check("without credentials", 401, proxy.status(&RawRequest::get("/any")).await);
    case.check("access reviews", 0, case.fixture.api_calls(1, 0).await?.access_reviews.len());
    Ok(())
}

/// ATTR-05: each header line is one value, commas do not split it, and all values must be allowed.
pub async fn header_lines_are_reviewed_separately(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().config(&rewrite_config(BY_HEADER))?.start().await?;
    proxy.status(&RawRequest::get("/any").header("x-tenant", "one,two").token(token)).await;
    case.check("one header", "one,two", namespaces(case, 0, 1).await?);

    grant_in(case, &["a", "b"]).await?;
    let config = rewrite_config(BY_HEADER).replace("resource: r", "resource: pods");
    let own = case.fixture.namespace.clone();
    let before = case.fixture.api_calls(1, 1).await?.access_reviews.len();
    let proxy = case.proxy().config(&config)?.start().await?;
    let two = |first: &str, second: &str| {
        RawRequest::get("/any")
            .header("X-Tenant", &format!("{own}-{first}"))
            .header("X-Tenant", &format!("{own}-{second}"))
            .token(token)
    };
    case.check("both allowed", 200, proxy.status(&two("a", "b")).await);
    case.check("two reviews in order", format!("{own}-a {own}-b"), namespaces(case, before, 2).await?);
    case.check("the second denied", 403, proxy.status(&two("b", "c")).await);
    case.check("the first denied", 403, proxy.status(&two("d", "a")).await);
    case.check(
        "one allowed",
        200,
        proxy.status(&RawRequest::get("/any").header("X-Tenant", &format!("{own}-a")).token(token)).await,
    );
    Ok(())
}

/// ATTR-06: a request without the header is rejected before any SubjectAccessReview.
pub async fn missing_header_is_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().config(&rewrite_config(BY_HEADER))?.start().await?;
    case.check("the answer", 400, proxy.status(&RawRequest::get("/any?ns=a").token(token)).await);
    case.check("access reviews", 0, case.fixture.api_calls(1, 0).await?.access_reviews.len());
    Ok(())
}

/// ATTR-07: query values are reviewed before header values, duplicates and empty values included; ambiguous
/// queries are rejected.
pub async fn query_and_header_values_are_all_reviewed(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.fixture.grant_resource(&case.fixture.username("caller"), "", "r", &["get"]).await?;
    let proxy = case.proxy().config(&rewrite_config(&format!("{BY_QUERY}{BY_HEADER}")))?.start().await?;
    let request = RawRequest::get("/any?ns=q1&ns=q2").header("X-Tenant", "h1").token(token);
    case.check("the answer", 200, proxy.status(&request).await);
    case.check("the order", "q1 q2 h1", namespaces(case, 0, 3).await?);
    case.check("an empty value", 200, proxy.status(&RawRequest::get("/any?ns=").token(token)).await);
    case.check("an empty value is reviewed", "q1 q2 h1 ", namespaces(case, 0, 4).await?);

    // Another parser could find one more value where the proxy's parser fails.
    for (name, query) in [
        ("a semicolon", "ns=q1&x=1;ns=q3"),
        ("a bad escape", "ns=q1&ns=%zz"),
        ("a bad escape elsewhere", "ns=q1&%=1"),
    ] {
        let _ = case.upstream.take();
        case.check(name, 400, proxy.status(&RawRequest::get(&format!("/any?{query}")).token(token)).await);
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// ATTR-08: decisions about attributes of 10,000 bytes or more are not cached, which bounds the cache's
/// memory.
pub async fn long_values_are_not_cached(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.fixture.grant_resource(&case.fixture.username("caller"), "", "r", &["get"]).await?;
    let proxy = case.proxy().config(&rewrite_config(BY_HEADER))?.start().await?;
    // The cache limit also counts `get` and `r`.
    for (name, length, expected) in [("9,999 bytes", 9_995, 1), ("10,000 bytes", 9_996, 2)] {
        let before = case.fixture.api_calls(1, 0).await?.access_reviews.len();
        let request = RawRequest::get("/any").header("X-Tenant", &"x".repeat(length)).token(token);
        case.check(&format!("{name}: first"), 200, proxy.status(&request).await);
        case.check(&format!("{name}: again"), 200, proxy.status(&request).await);
        let calls = case.fixture.api_calls(1, before + expected).await?.access_reviews.len() - before;
        case.check(&format!("{name}: access reviews"), expected, calls);
    }
    Ok(())
}
