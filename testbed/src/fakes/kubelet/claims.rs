//! Binds PersistentVolumeClaims like a provisioner: writes the status, and on request creates a volume.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::is_status;
use super::script::ClaimPolicy;

/// Binds a claim.
pub(super) async fn bind(
    client: &Client,
    claim: &PersistentVolumeClaim,
    policy: ClaimPolicy,
) -> kube::Result<()> {
    let namespace = claim.namespace().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    if policy == ClaimPolicy::BoundToVolume {
        let name = create_volume(client, claim, &namespace).await?;
        let bound = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": name},
        });
        claims.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(bound)).await?;
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let status = json!({"status": {
        "phase": "Bound",
        "accessModes": spec.access_modes,
        "capacity": capacity(claim),
    }});
    claims.patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// Creates the volume of a claim, with `claimRef` already set, and returns its name. An existing volume was created
/// by an earlier attempt.
async fn create_volume(
    client: &Client,
    claim: &PersistentVolumeClaim,
    namespace: &str,
) -> kube::Result<String> {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let name = format!("fake-{}", claim.uid().unwrap_or_default());
    let spec = claim.spec.clone().unwrap_or_default();
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": spec.storage_class_name.unwrap_or_default(),
            "accessModes": spec.access_modes,
            "capacity": capacity(claim),
            "persistentVolumeReclaimPolicy": "Retain",
            // Never mounted.
            "hostPath": {"path": format!("/nonexistent/{name}")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": namespace, "name": claim.name_any(), "uid": claim.uid(),
            },
        },
    });
    let volume: PersistentVolume = serde_json::from_value(volume).map_err(kube::Error::SerdeError)?;
    match volumes.create(&PostParams::default(), &volume).await {
        Err(error) if !is_status(&error, 409) => Err(error),
        _ => Ok(name),
    }
}

fn capacity(claim: &PersistentVolumeClaim) -> Value {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    json!(requests)
}
