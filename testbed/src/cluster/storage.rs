//! Local PersistentVolumes: directories on the disks of nodes, provisioned statically. A claim is bound when its pod is
//! scheduled.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::node::Node;
use crate::error::{Error, Result};

/// Storage class of the volumes.
pub const CLASS: &str = "local";

/// Declared capacity of each volume; not enforced.
const CAPACITY: &str = "10Gi";

/// Creates the storage class and `each` volumes on every node.
pub async fn create_volumes(plane: &ControlPlane, nodes: &[Node], each: usize) -> Result<()> {
    let client = plane.client().await?;
    let params = PatchParams::apply("testbed");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": CLASS },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    Api::<StorageClass>::all(client.clone()).patch(CLASS, &params, &Patch::Apply(&class)).await?;
    let volumes: Api<PersistentVolume> = Api::all(client);
    for node in nodes {
        for (number, dir) in node.create_volume_dirs(each)?.into_iter().enumerate() {
            let name = format!("{}-{number}", node.name());
            let on_node =
                json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node.name()] });
            let path = dir.to_str().ok_or_else(|| Error::Other(format!("{dir:?} is not valid UTF-8")))?;
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": { "storage": CAPACITY },
                    "local": { "path": path },
                    "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [on_node] }] } },
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": CLASS,
                },
            });
            volumes.patch(&name, &params, &Patch::Apply(&volume)).await?;
        }
    }
    Ok(())
}
