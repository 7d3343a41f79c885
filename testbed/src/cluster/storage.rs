//! Volumes of nodes: folders on their disks, made ready by hand as on machines with disks of their own. A claim gets one when its
//! pod is given a node.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::node::Node;
use crate::error::{Error, Result};

/// The storage class of these volumes.
pub const CLASS: &str = "local";

/// What each of them says that it holds. Nothing keeps a pod from writing more.
const CAPACITY: &str = "10Gi";

/// Makes the storage class, and so many volumes on each of these nodes.
pub async fn provide(plane: &ControlPlane, nodes: &[Node], each: usize) -> Result<()> {
    let client = plane.client().await?;
    let params = PatchParams::apply("testbed");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": CLASS },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    Api::<StorageClass>::all(client.clone()).patch(CLASS, &params, &Patch::Apply(&class)).await?;
    let volumes: Api<PersistentVolume> = Api::all(client);
    for node in nodes {
        for (number, folder) in node.volumes(each)?.into_iter().enumerate() {
            let name = format!("{}-{number}", node.name());
            let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node.name()] });
            let path = folder.to_str().ok_or_else(|| Error::Refused(format!("{folder:?} is no text")))?;
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": { "storage": CAPACITY },
                    "local": { "path": path },
                    "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": CLASS,
                },
            });
            volumes.patch(&name, &params, &Patch::Apply(&volume)).await?;
        }
    }
    Ok(())
}
