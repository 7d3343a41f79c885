//! The Secret reader on a real API server.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use operator::secrets::{Freshness, SecretReader};
use plan::node::SecretObservation;
use runtime::Key;
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::server::TIMEOUT;

fn certificate(label: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": "key", "labels": { "label": label } },
        "stringData": { "tls.crt": "public", "tls.key": "hidden" },
    })
}

/// Returns the version of a Secret that was found.
fn version(secret: &SecretObservation) -> Option<&str> {
    match secret {
        SecretObservation::Found(found) => found.secret.metadata.resource_version.as_deref(),
        _ => None,
    }
}

pub async fn copy_of_a_secret_is_used_until_it_is_outdated(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let namespace = cx.namespace().await?;
    let agent = "operator-secrets-test";
    let operator = plane.admin().client(agent).await?;
    let secrets = SecretReader::new(operator.clone());
    let api: Api<Secret> = Api::namespaced(plane.client().await?, &namespace);
    let key = Key { namespace: namespace.clone(), name: "key".into() };
    let get = |freshness| secrets.get(&namespace, "key", freshness);
    let set = async |label: &str| {
        let set = api.patch("key", &PatchParams::apply("test"), &Patch::Apply(certificate(label))).await;
        set.map(|secret| secret.metadata.resource_version)
    };

    assert!(matches!(get(Freshness::Awaited).await, SecretObservation::Missing));
    let one = set("one").await?;
    // Who waits for a Secret sees it at once.
    wait::until("the awaited Secret", TIMEOUT, || async {
        let secret = get(Freshness::Awaited).await;
        if version(&secret) == one.as_deref() { Ok(()) } else { Err(format!("{secret:?}")) }
    })
    .await?;
    let SecretObservation::Found(found) = get(Freshness::Cached).await else {
        return Err("the Secret was not found".into());
    };
    let data = found.secret.data.clone().unwrap_or_default();
    assert_eq!((&*data["tls.crt"].0, &*data["tls.key"].0), (&b"public"[..], &b"*"[..]));
    let reads = || async {
        // A marker request of the same client: earlier requests are in the audit log once it is.
        let begin = k8s_openapi::jiff::Timestamp::now();
        Api::<Secret>::namespaced(operator.clone(), &namespace).get_opt("marker").await?;
        let is_own = |request: &AuditedRequest| {
            request.user_agent == agent && request.resource == "secrets" && request.namespace == namespace
        };
        let is_marker = |request: &AuditedRequest| request.name == "marker" && request.received.0 >= begin;
        plane.audit().wait_for(1, TIMEOUT, |request| is_own(request) && is_marker(request)).await?;
        plane.audit().requests(|request| is_own(request) && request.name == "key")
    };
    let before = reads().await?.len();

    // A converged node uses its copy, also of a Secret that has changed, until something shows that it has.
    let two = set("two").await?;
    for _ in 0..20 {
        assert_eq!(version(&get(Freshness::Cached).await), one.as_deref());
    }
    assert_eq!(reads().await?.len(), before, "no read");
    secrets.expire(&key);
    for _ in 0..20 {
        assert_eq!(version(&get(Freshness::Cached).await), two.as_deref());
    }
    assert_eq!(reads().await?.len(), before + 1, "one read");

    // A sidecar that serves another certificate shows the same, but may not cause a read for each of its responses.
    for _ in 0..20 {
        secrets.expire_after_mismatch(&key);
        get(Freshness::Cached).await;
    }
    assert_eq!(reads().await?.len(), before + 1, "it was read a moment ago");
    let three = set("three").await?;
    wait::until("the replaced Secret", TIMEOUT, || async {
        secrets.expire_after_mismatch(&key);
        let secret = get(Freshness::Cached).await;
        if version(&secret) == three.as_deref() { Ok(()) } else { Err(format!("{secret:?}")) }
    })
    .await?;
    assert_eq!(reads().await?.len(), before + 2, "one read");

    api.delete("key", &DeleteParams::default()).await?;
    secrets.expire(&key);
    assert!(matches!(get(Freshness::Cached).await, SecretObservation::Missing));
    let verbs: Vec<String> = reads().await?.into_iter().map(|request| request.verb).collect();
    assert!(verbs.iter().all(|verb| verb == "get"), "neither list nor watch: {verbs:?}");
    Ok(())
}

pub async fn forbidden_secret_is_reported_unreadable(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let namespace = cx.namespace().await?;
    let api: Api<Secret> = Api::namespaced(plane.client().await?, &namespace);
    api.patch("key", &PatchParams::apply("test"), &Patch::Apply(certificate("one"))).await?;
    let unprivileged = plane.user("unprivileged", None)?.client("operator-secrets-unprivileged").await?;
    let secrets = SecretReader::new(unprivileged);
    let SecretObservation::Unreadable(reason) = secrets.get(&namespace, "key", Freshness::Cached).await
    else {
        return Err("the Secret was read".into());
    };
    assert_eq!(
        reason,
        format!(
            "the operator is not permitted to read Secrets in namespace {namespace} (403): apply deploy/operator/node-namespace in that \
             namespace, as examples/nodes does"
        )
    );
    Ok(())
}
