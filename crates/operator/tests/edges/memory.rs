//! Secrets on a real API server: how often they are read.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use operator::secrets::{SecretMeta, Secrets};
use plan::node::SecretSight;
use runtime::Key;
use runtime::metrics::Metrics;
use runtime::watch::{Cache, Watch};
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::server::SOON;

fn certificate(label: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": "key", "labels": { "label": label } },
        "stringData": { "tls.crt": "public", "tls.key": "hush" },
    })
}

/// A watch of metadata in one namespace, running.
async fn watched(client: &kube::Client, namespace: &str) -> Cache<SecretMeta> {
    let api = Api::namespaced(client.clone(), namespace);
    let watch = Watch::<SecretMeta>::of_metadata(api, watcher::Config::default(), &Metrics::new());
    let cache = watch.cache();
    tokio::spawn(watch.run());
    cache.synced().await;
    cache
}

pub async fn a_secret_is_read_once_in_each_version(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let namespace = cx.namespace().await?;
    let agent = "operator-secrets-test";
    let ours = plane.admin().client(agent).await?;
    let cache = watched(&ours, &namespace).await;
    let secrets = Secrets::new(ours.clone(), vec![cache.clone()]);
    let others: Api<Secret> = Api::namespaced(plane.client().await?, &namespace);
    let key = Key { namespace: namespace.clone(), name: "key".into() };
    let shown = async |version: Option<String>| {
        wait::until("the watch to see it", SOON, || async {
            let seen = cache.get(&key).and_then(|secret| secret.resource_version());
            if seen == version { Ok(()) } else { Err(Error::Refused(format!("{seen:?}"))) }
        })
        .await
    };

    assert!(matches!(secrets.look(&namespace, "key").await, SecretSight::Missing));
    for label in ["one", "two"] {
        let set = others.patch("key", &PatchParams::apply("test"), &Patch::Apply(certificate(label))).await?;
        shown(set.resource_version()).await?;
        for _ in 0..3 {
            let SecretSight::Found(secret) = secrets.look(&namespace, "key").await else {
                return Err("it is there".into());
            };
            assert_eq!(secret.metadata.resource_version, set.metadata.resource_version);
            let data = secret.data.clone().unwrap_or_default();
            assert_eq!((&*data["tls.crt"].0, &*data["tls.key"].0), (&b"public"[..], &b"*"[..]));
        }
    }
    others.delete("key", &DeleteParams::default()).await?;
    shown(None).await?;
    assert!(matches!(secrets.look(&namespace, "key").await, SecretSight::Missing));

    // A marker by the same client: what it asked before is in the log by then.
    ours.apiserver_version().await?;
    Api::<Secret>::namespaced(ours, &namespace).get_opt("the-end").await?;
    let audit = plane.audit();
    let by_us = |name: &'static str| {
        let namespace = namespace.clone();
        move |request: &testbed::cluster::control_plane::AuditedRequest| {
            request.user_agent == agent
                && request.resource == "secrets"
                && request.verb == "get"
                && request.namespace == namespace
                && request.name == name
        }
    };
    audit.wait_for(1, SOON, by_us("the-end")).await?;
    let reads = audit.requests(by_us("key"))?;
    let found = reads.iter().filter(|read| read.code == 200).count();
    assert_eq!(
        (found, reads.len()),
        (2, 4),
        "one in each version, and one for each look while it was not there: {reads:?}"
    );
    Ok(())
}

pub async fn a_secret_that_may_not_be_read_says_so(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let namespace = cx.namespace().await?;
    let admin = plane.client().await?;
    let others: Api<Secret> = Api::namespaced(admin.clone(), &namespace);
    others.patch("key", &PatchParams::apply("test"), &Patch::Apply(certificate("one"))).await?;
    let cache = watched(&admin, &namespace).await;
    let nobody = plane.user("nobody", None)?.client("operator-secrets-nobody").await?;
    let secrets = Secrets::new(nobody, vec![cache]);
    let SecretSight::Unreadable(why) = secrets.look(&namespace, "key").await else {
        return Err("it may not be read".into());
    };
    assert_eq!(why, "the operator may not read Secrets there (403): give its ServiceAccount the right");
    Ok(())
}
