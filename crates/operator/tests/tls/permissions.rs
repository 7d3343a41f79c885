//! The shipped RBAC rules are sufficient, and each of them is used.

use api::SeiNodeDeployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use operator::install;
use serde_json::{Value, json};
use testbed::Error;
use testbed::fakes::kubelet::ClaimPolicy;
use testbed::harness::rbac;
use testbed::harness::wait;

use crate::fixture::{self, Fixture, TIMEOUT};

/// Permissions that are needed and not in the audit log of this test, and why.
fn not_audited() -> Vec<(String, &'static str)> {
    let documents = documents("");
    let granted = rbac::granted(&documents);
    let by_proxies = granted.iter().filter(|permission| permission.resource.starts_with("seinodetasks"));
    let mut all: Vec<(String, &str)> = by_proxies
        .map(|permission| (permission.to_string(), "checked by proxies, which are fakes here"))
        .collect();
    all.extend(["seinodes", "seinodedeployments"].map(|resource| {
        (
            format!("update {resource}/finalizers.sei.io"),
            "checked by the OwnerReferencesPermissionEnforcement admission plugin, where enabled",
        )
    }));
    let is_watched =
        |resource: &str| granted.iter().any(|one| one.verb == "watch" && one.resource == resource);
    let of_watched = granted.iter().filter(|one| one.verb == "get" && is_watched(&one.resource));
    all.extend(of_watched.map(|one| {
        (one.to_string(), "used when a watch has not delivered the operator's own write for too long")
    }));
    all
}

/// Returns what is installed: cluster-wide, and in a namespace of nodes.
fn documents(namespace: &str) -> Vec<Value> {
    let shipped = install::files().into_iter().filter(|(file, _)| *file == "operator/rbac.yaml");
    shipped.flat_map(|(_, all)| all).chain(install::node_namespace(namespace)).collect()
}

/// Uses the permissions that the TLS test does not use.
async fn use_remaining_permissions(fixture: &Fixture<'_>) -> Result<(), Error> {
    fixture.kubelets.set_claim_policy(ClaimPolicy::BoundToVolume);
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "imported" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": { "requests": { "storage": "10Gi" } },
        },
    }))
    .map_err(|error| Error::Other(error.to_string()))?;
    fixture.api::<PersistentVolumeClaim>().create(&PostParams::default(), &claim).await?;
    let with_bootstrap = |node: &mut Value| {
        node["spec"]["fullNode"] = json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": "images.example/sei:v0" } });
        node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "imported" } });
        node["metadata"]["finalizers"] = json!(["sei.io/seinode-finalizer"]);
    };
    fixture.create_ready("other", with_bootstrap).await?;
    let as_user = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    let config = Patch::Merge(json!({ "data": { "config.yaml": "authorization: {}\n" } }));
    fixture.api::<ConfigMap>().patch("other-rbac-proxy-config", &as_user, &config).await?;
    let service = Patch::Merge(json!({ "spec": { "publishNotReadyAddresses": false } }));
    fixture.api::<Service>().patch("other", &as_user, &service).await?;
    let policy = Patch::Merge(json!({ "spec": { "ingress": [] } }));
    fixture.api::<NetworkPolicy>().patch("other", &as_user, &policy).await?;
    let is_open = |policy: &NetworkPolicy| {
        policy.spec.as_ref().is_some_and(|spec| spec.ingress.iter().flatten().count() > 0)
    };
    fixture.wait_until_object("other", "it is restored", is_open).await?;
    fixture.create_ready("retained", |_| {}).await?;
    fixture.edit("retained", json!({ "spec": { "dataVolume": { "deletionPolicy": "Retain" } } })).await?;
    let is_retained = |claim: &PersistentVolumeClaim| claim.metadata.owner_references.is_none();
    fixture.wait_until_object("data-retained", "it is retained", is_retained).await?;
    fixture.nodes().delete("other", &DeleteParams::default()).await?;
    resize_validator(fixture).await?;
    use_fleet_permissions(fixture).await
}

/// Creates a fleet with the finalizer of the upstream controller, scales it, and edits it until old revisions are deleted and one returns.
async fn use_fleet_permissions(fixture: &Fixture<'_>) -> Result<(), Error> {
    let fleets = fixture.api::<SeiNodeDeployment>();
    let fleet: SeiNodeDeployment = serde_json::from_value(json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNodeDeployment",
        "metadata": { "name": "fleet", "finalizers": ["sei.io/seinodedeployment-finalizer"] },
        "spec": {
            "replicas": 2, "deletionPolicy": "Retain",
            "template": { "spec": { "chainId": "arctic-1", "image": fixture::IMAGE, "fullNode": {} } },
        },
    }))
    .map_err(|error| Error::Other(error.to_string()))?;
    fleets.create(&PostParams::default(), &fleet).await?;
    let edit = async |patch: Value| -> Result<(), Error> {
        fleets.patch("fleet", &PatchParams::default(), &Patch::Merge(patch)).await?;
        wait::until("the edit of the fleet is applied", TIMEOUT, || async {
            let fleet = fleets.get("fleet").await.map_err(|error| error.to_string())?;
            let status = fleet.status.unwrap_or_default();
            let is_applied = status.reconciled_generation == fleet.metadata.generation;
            if is_applied { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await
    };
    // Annotations of nodes replace no pod. Ten revisions are kept, so that the last one returns.
    for note in (0..12).chain([5]) {
        let metadata = json!({ "annotations": { "note": note.to_string() } });
        edit(json!({ "spec": { "template": { "metadata": metadata } } })).await?;
    }
    edit(json!({ "spec": { "replicas": 1, "deletionPolicy": "Delete" } })).await?;
    fleets.delete("fleet", &DeleteParams::default()).await?;
    Ok(())
}

/// Creates a validator, which has a PodDisruptionBudget, and expands its volume.
async fn resize_validator(fixture: &Fixture<'_>) -> Result<(), Error> {
    let class: StorageClass = serde_json::from_value(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": fixture.ns },
        "provisioner": "none.example", "allowVolumeExpansion": true,
    }))
    .map_err(|error| Error::Other(error.to_string()))?;
    Api::all(fixture.client.clone()).create(&PostParams::default(), &class).await?;
    let validator = |node: &mut Value| {
        node["spec"]["fullNode"] = Value::Null;
        node["spec"]["validator"] = json!({});
        node["spec"]["storage"] = json!({ "size": "5Gi", "storageClassName": fixture.ns });
    };
    fixture.create_ready("validator", validator).await?;
    fixture.edit("validator", json!({ "spec": { "storage": { "size": "6Gi" } } })).await?;
    let is_resized = |claim: &PersistentVolumeClaim| {
        let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let size = resources.and_then(|resources| resources.requests.as_ref()?.get("storage"));
        size.is_some_and(|size| size.0 == "6Gi")
    };
    fixture.wait_until_object("data-validator", "it is resized", is_resized).await?;
    fixture.nodes().delete("validator", &DeleteParams::default()).await?;
    Ok(())
}

/// Runs after the TLS test, which uses most permissions.
pub async fn shipped_rbac_is_sufficient_and_minimal(fixture: &Fixture<'_>) -> Result<(), Error> {
    use_remaining_permissions(fixture).await?;
    let documents = documents(&fixture.ns);
    let reasons = not_audited();
    let reasons: Vec<(&str, &str)> = reasons.iter().map(|(one, why)| (one.as_str(), *why)).collect();
    wait::until("no problem with a permission", TIMEOUT, || async {
        let audit = fixture.plane.audit();
        let problems = audit.permission_problems(&fixture::user(), &documents, &reasons);
        let problems = problems.map_err(|error| error.to_string())?;
        if problems.is_empty() { Ok(()) } else { Err(format!("{problems:#?}")) }
    })
    .await
}
