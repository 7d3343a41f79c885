//! The rights that are shipped are enough, and each of them is used.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use operator::install;
use serde_json::{Value, json};
use testbed::Error;
use testbed::fakes::kubelet::Claims;
use testbed::harness::rights;
use testbed::harness::wait;

use crate::ground::{self, Ground, SOON};

/// Rights whose use no log of requests shows here, and why they are given.
const UNSEEN: [(&str, &str); 3] = [
    (
        "update seinodes/finalizers.sei.io",
        "asked for by the admission of owner references, where a cluster has it",
    ),
    ("create seinodetasks.sei.io", "asked for by proxies, which are played here"),
    ("get seinodetasks.sei.io", "asked for by proxies, which are played here"),
];

/// Kinds of which one object is read when the watch does not show our own write for long, which no story can be made to do at will.
fn is_read_of_what_is_watched(right: &str) -> bool {
    right.starts_with("get ")
        && !["secrets.", "persistentvolumes.", "leases."].iter().any(|one| right.contains(one))
}

/// What the story before did not do.
async fn do_the_rest(ground: &Ground<'_>) -> Result<(), Error> {
    ground.kubelets.treat_claims(Claims::BoundToVolume);
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "given" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": { "requests": { "storage": "10Gi" } },
        },
    }))
    .map_err(|error| Error::Refused(error.to_string()))?;
    ground.api::<PersistentVolumeClaim>().create(&PostParams::default(), &claim).await?;
    let bootstrapped = |node: &mut Value| {
        node["spec"]["fullNode"] = json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": "images.example/sei:v0" } });
        node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "given" } });
        node["metadata"]["finalizers"] = json!(["sei.io/seinode-finalizer"]);
    };
    ground.running("other", bootstrapped).await?;
    let hand = PatchParams { field_manager: Some("a-hand".into()), ..PatchParams::default() };
    let config = Patch::Merge(json!({ "data": { "config.yaml": "authorization: {}\n" } }));
    ground.api::<ConfigMap>().patch("other-rbac-proxy-config", &hand, &config).await?;
    let service = Patch::Merge(json!({ "spec": { "publishNotReadyAddresses": false } }));
    ground.api::<Service>().patch("other", &hand, &service).await?;
    let policy = Patch::Merge(json!({ "spec": { "ingress": [] } }));
    ground.api::<NetworkPolicy>().patch("other", &hand, &policy).await?;
    let is_open = |policy: &NetworkPolicy| {
        policy.spec.as_ref().is_some_and(|spec| spec.ingress.iter().flatten().count() > 0)
    };
    ground.until_object("other", "it is put back", is_open).await?;
    ground.nodes().delete("other", &DeleteParams::default()).await?;
    Ok(())
}

/// Behind a story in which everything else was done.
pub async fn the_operator_may_do_what_it_does_and_nothing_else(ground: &Ground<'_>) -> Result<(), Error> {
    do_the_rest(ground).await?;
    let documents: Vec<Value> = install::files()
        .into_iter()
        .filter(|(file, _)| *file == "operator/rbac.yaml")
        .flat_map(|(_, all)| all)
        .collect();
    let user = ground::user();
    wait::until("the use of every right", SOON, || async {
        let requests =
            ground.plane.audit().requests(|one| one.user == user).map_err(|error| error.to_string())?;
        let idle = rights::unused(&documents, &requests);
        let unseen = |right: &String| UNSEEN.iter().any(|(one, _)| right == one);
        let idle: Vec<String> =
            idle.into_iter().filter(|right| !unseen(right) && !is_read_of_what_is_watched(right)).collect();
        if idle.is_empty() { Ok(()) } else { Err(format!("these are not used: {idle:#?}")) }
    })
    .await?;
    let refused = ground.plane.audit().requests(|one| one.user == user && one.code == 403)?;
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}
