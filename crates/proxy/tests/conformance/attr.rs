//! ATTR: what is asked about a request.

use serde_json::{Value, json};
use testbed::TestResult;

use crate::ask::Ask;
use crate::case::Case;
use crate::cfg::asked;

/// A configuration whose namespace is taken from the request.
fn rewriting(by: &str) -> String {
    format!(
        "authorization:\n  rewrites:\n{by}  resourceAttributes:\n    resource: r\n    namespace: \"{{{{ .Value }}}}\"\n"
    )
}

const BY_QUERY: &str = "    byQueryParameter:\n      name: ns\n";
const BY_HEADER: &str = "    byHttpHeader:\n      name: X-Tenant\n";

/// The namespaces that were asked about from the `from`-th review on.
async fn namespaces(case: &Case<'_>, from: usize, count: usize) -> Result<String, testbed::Error> {
    let calls = case.ground.calls(1, from + count).await?;
    let namespace = |review: &Value| {
        let attributes = &review["spec"]["resourceAttributes"];
        attributes["namespace"].as_str().unwrap_or("").to_owned()
    };
    Ok(calls.access_reviews.iter().skip(from).map(namespace).collect::<Vec<_>>().join(" "))
}

/// Lets the caller use resource r in some namespaces.
async fn grant_in(case: &Case<'_>, namespaces: &[&str]) -> TestResult {
    // Roles belong to namespaces that exist; a cluster role bound in one is what RBAC has for "there only".
    let kubectl = |arguments: &[&str]| -> TestResult {
        let output = case.ground.plane.kubectl()?.args(arguments).output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
        }
    };
    let user = format!("--user={}", case.ground.name_of("caller"));
    for namespace in namespaces {
        let name = format!("{}-{namespace}", case.ground.namespace);
        kubectl(&["create", "namespace", &name])?;
        kubectl(&["create", "role", "r", "--verb=get", "--resource=pods", "-n", &name])?;
        kubectl(&["create", "rolebinding", "r", "--role=r", &user, "-n", &name])?;
        let namespace = &name;
        testbed::harness::wait::until("a permission", crate::ground::SOON, || async {
            let who = format!("--as={}", case.ground.name_of("caller"));
            let mut command = case.ground.plane.kubectl()?;
            let output = command.args(["auth", "can-i", "get", "pods", "-n", namespace, &who]).output();
            match output {
                Ok(output) if output.status.success() => Ok(()),
                _ => Err(testbed::Error::Refused("not yet".into())),
            }
        })
        .await?;
    }
    Ok(())
}

/// ATTR-01: without attributes the path is asked about: decoded, without its query.
pub async fn a_path(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    proxy.code(&Ask::get("/some/p%61th%20x?q=1").token(token)).await;
    case.check("what is asked", json!({ "path": "/some/path x", "verb": "get" }), asked(case, 1).await?);
    let calls = case.ground.calls(1, 1).await?;
    let spec = calls.access_reviews.first().map(|one| one["spec"].clone()).unwrap_or_default();
    case.check("for whom", json!(case.ground.name_of("caller")), &spec["user"]);
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", case.ground.namespace),
        "system:authenticated"
    ]);
    case.check("with which groups", groups, &spec["groups"]);
    case.check("with a uid", true, spec["uid"].is_string());
    let credential = spec["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    case.check("with the token's id", true, credential.is_some_and(|id| id.starts_with("JTI=")));
    Ok(())
}

/// ATTR-02.
pub async fn attributes(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let config = "authorization:\n  resourceAttributes:\n    resource: r\n    namespace: fixed\n";
    let proxy = case.proxy().config(config)?.start().await?;
    proxy.code(&Ask::get("/any?ns=other").token(token)).await;
    let wanted = json!({ "namespace": "fixed", "resource": "r", "verb": "get" });
    case.check("what is asked", wanted, asked(case, 1).await?);
    Ok(())
}

/// ATTR-03.
pub async fn by_query(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().config(&rewriting(BY_QUERY))?.start().await?;
    proxy.code(&Ask::get("/any?x=1&ns=t%65am&y=2").token(token)).await;
    let wanted = json!({ "namespace": "team", "resource": "r", "verb": "get" });
    case.check("what is asked", wanted, asked(case, 1).await?);
    Ok(())
}

/// ATTR-04: no value, no question.
pub async fn no_query(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().config(&rewriting(BY_QUERY))?.start().await?;
    let answer = proxy.ask(&Ask::get("/any?other=1").token(token)).await?;
    case.check("the answer", 400, answer.status);
    case.check("its text", "Bad Request. The request or configuration is malformed.\n", answer.text());
    case.check("without credentials", 401, proxy.code(&Ask::get("/any")).await);
    case.check("access reviews", 0, case.ground.calls(1, 0).await?.access_reviews.len());
    Ok(())
}

/// ATTR-05: each line of a header is one value; commas do not part it. All must be allowed, and the first refusal tells.
pub async fn by_header(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().config(&rewriting(BY_HEADER))?.start().await?;
    proxy.code(&Ask::get("/any").header("x-tenant", "one,two").token(token)).await;
    case.check("one line", "one,two", namespaces(case, 0, 1).await?);

    grant_in(case, &["a", "b"]).await?;
    let config = rewriting(BY_HEADER).replace("resource: r", "resource: pods");
    let own = case.ground.namespace.clone();
    let before = case.ground.calls(1, 1).await?.access_reviews.len();
    let proxy = case.proxy().config(&config)?.start().await?;
    let two = |first: &str, second: &str| {
        Ask::get("/any")
            .header("X-Tenant", &format!("{own}-{first}"))
            .header("X-Tenant", &format!("{own}-{second}"))
            .token(token)
    };
    case.check("both allowed", 200, proxy.code(&two("a", "b")).await);
    case.check("two questions in order", format!("{own}-a {own}-b"), namespaces(case, before, 2).await?);
    case.check("the second refused", 403, proxy.code(&two("b", "c")).await);
    case.check("the first refused", 403, proxy.code(&two("d", "a")).await);
    case.check(
        "one allowed",
        200,
        proxy.code(&Ask::get("/any").header("X-Tenant", &format!("{own}-a")).token(token)).await,
    );
    Ok(())
}

/// ATTR-06.
pub async fn no_header(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().config(&rewriting(BY_HEADER))?.start().await?;
    case.check("the answer", 400, proxy.code(&Ask::get("/any?ns=a").token(token)).await);
    case.check("access reviews", 0, case.ground.calls(1, 0).await?.access_reviews.len());
    Ok(())
}

/// ATTR-07: values of the query come first, then those of headers; what is said twice counts, and so does an empty value.
pub async fn by_both(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.ground.grant_resource(&case.ground.name_of("caller"), "", "r", &["get"]).await?;
    let proxy = case.proxy().config(&rewriting(&format!("{BY_QUERY}{BY_HEADER}")))?.start().await?;
    let ask = Ask::get("/any?ns=q1&ns=q2").header("X-Tenant", "h1").token(token);
    case.check("the answer", 200, proxy.code(&ask).await);
    case.check("the order", "q1 q2 h1", namespaces(case, 0, 3).await?);
    case.check("an empty value", 200, proxy.code(&Ask::get("/any?ns=").token(token)).await);
    case.check("is asked about", "q1 q2 h1 ", namespaces(case, 0, 4).await?);

    // W5: what the proxy cannot read, another reader could read as one more value.
    for (name, query) in [
        ("a semicolon", "ns=q1&x=1;ns=q3"),
        ("a bad escape", "ns=q1&ns=%zz"),
        ("a bad escape elsewhere", "ns=q1&%=1"),
    ] {
        let _ = case.upstream.take();
        case.check(name, 400, proxy.code(&Ask::get(&format!("/any?{query}")).token(token)).await);
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// ATTR-08: what is very long is asked about each time, so that nobody fills the memory with it.
pub async fn long_values(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.ground.grant_resource(&case.ground.name_of("caller"), "", "r", &["get"]).await?;
    let proxy = case.proxy().config(&rewriting(BY_HEADER))?.start().await?;
    // What else is counted: `get` and `r`.
    for (name, length, wanted) in [("9,999 bytes", 9_995, 1), ("10,000 bytes", 9_996, 2)] {
        let before = case.ground.calls(1, 0).await?.access_reviews.len();
        let ask = Ask::get("/any").header("X-Tenant", &"x".repeat(length)).token(token);
        case.check(&format!("{name}: first"), 200, proxy.code(&ask).await);
        case.check(&format!("{name}: again"), 200, proxy.code(&ask).await);
        let calls = case.ground.calls(1, before + wanted).await?.access_reviews.len() - before;
        case.check(&format!("{name}: questions"), wanted, calls);
    }
    Ok(())
}
