//! The Secret reader on a real API server.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use operator::secrets::{SecretMeta, SecretReader};
use plan::node::SecretObservation;
use runtime::Key;
use runtime::metrics::Metrics;
use runtime::watch::{Cache, Watch};
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::server::TIMEOUT;

fn certificate(label: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": "key", "labels": { "label": label } },
        "stringData": { "tls.crt": "public", "tls.key": "hidden" },
    })
}

/// Starts a watch of Secret metadata in one namespace.
async fn watch_metadata(client: &kube::Client, namespace: &str) -> Cache<SecretMeta> {
    let api = Api::namespaced(client.clone(), namespace);
    let watch = Watch::<SecretMeta>::for_metadata(api, watcher::Config::default(), &Metrics::new());
    let cache = watch.cache();
    tokio::spawn(watch.run());
    cache.wait_synced().await;
    cache
}

pub async fn secret_is_read_once_per_version(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let namespace = cx.namespace().await?;
    let agent = "operator-secrets-test";
    let operator = plane.admin().client(agent).await?;
    let cache = watch_metadata(&operator, &namespace).await;
    let secrets = SecretReader::new(operator.clone(), vec![cache.clone()]);
    let api: Api<Secret> = Api::namespaced(plane.client().await?, &namespace);
    let key = Key { namespace: namespace.clone(), name: "key".into() };
    let wait_delivered = async |version: Option<String>| {
        wait::until("the watch to deliver it", TIMEOUT, || async {
            let cached = cache.get(&key).and_then(|secret| secret.resource_version());
            if cached == version { Ok(()) } else { Err(Error::Other(format!("{cached:?}"))) }
        })
        .await
    };

    assert!(matches!(secrets.get(&namespace, "key").await, SecretObservation::Missing));
    for label in ["one", "two"] {
        let set = api.patch("key", &PatchParams::apply("test"), &Patch::Apply(certificate(label))).await?;
        wait_delivered(set.resource_version()).await?;
        for _ in 0..3 {
            let SecretObservation::Found(found) = secrets.get(&namespace, "key").await else {
                return Err("the Secret was not found".into());
            };
            let secret = &found.secret;
            assert_eq!(secret.metadata.resource_version, set.metadata.resource_version);
            let data = secret.data.clone().unwrap_or_default();
            assert_eq!((&*data["tls.crt"].0, &*data["tls.key"].0), (&b"public"[..], &b"*"[..]));
        }
    }
    api.delete("key", &DeleteParams::default()).await?;
    wait_delivered(None).await?;
    assert!(matches!(secrets.get(&namespace, "key").await, SecretObservation::Missing));

    // A marker request of the same client: earlier requests are in the audit log once it is.
    operator.apiserver_version().await?;
    Api::<Secret>::namespaced(operator, &namespace).get_opt("marker").await?;
    let audit = plane.audit();
    let reads_of = |name: &'static str| {
        let namespace = namespace.clone();
        move |request: &testbed::cluster::control_plane::AuditedRequest| {
            request.user_agent == agent
                && request.resource == "secrets"
                && request.verb == "get"
                && request.namespace == namespace
                && request.name == name
        }
    };
    audit.wait_for(1, TIMEOUT, reads_of("marker")).await?;
    let reads = audit.requests(reads_of("key"))?;
    let found = reads.iter().filter(|read| read.code == 200).count();
    assert_eq!(
        (found, reads.len()),
        (2, 4),
        "one read per version, and one for each get while it did not exist: {reads:?}"
    );
    Ok(())
}

pub async fn forbidden_secret_is_reported_unreadable(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let namespace = cx.namespace().await?;
    let admin = plane.client().await?;
    let api: Api<Secret> = Api::namespaced(admin.clone(), &namespace);
    api.patch("key", &PatchParams::apply("test"), &Patch::Apply(certificate("one"))).await?;
    let cache = watch_metadata(&admin, &namespace).await;
    let unprivileged = plane.user("unprivileged", None)?.client("operator-secrets-unprivileged").await?;
    let secrets = SecretReader::new(unprivileged, vec![cache]);
    let SecretObservation::Unreadable(reason) = secrets.get(&namespace, "key").await else {
        return Err("the Secret was read".into());
    };
    assert_eq!(
        reason,
        "the operator is not allowed to read Secrets in this namespace (403): grant its ServiceAccount get on secrets"
    );
    Ok(())
}
