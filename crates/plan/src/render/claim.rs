//! The claim of a node's data volume.

use api::SeiNode;
use api::names::object;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};

use super::{Refusal, meta, resources};
use crate::platform::Platform;

/// The claim of a node's data volume. Refused for a node that imports one: it has its volume.
pub fn data_claim(node: &SeiNode, platform: &Platform) -> Result<PersistentVolumeClaim, Refusal> {
    if let Some(name) = imported(node) {
        return Err(Refusal(format!("the node imports claim {name} and gets no other")));
    }
    let storage = meta::kind(node)?.storage(platform);
    Ok(PersistentVolumeClaim {
        metadata: meta::of(node, name(node), meta::labels(node)),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(resources::list("volume", [("storage", storage.size.as_str())])?),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: Some(storage.class.clone()),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// The name of the claim that a node's pods mount: the imported one, or its own.
pub(super) fn name(node: &SeiNode) -> String {
    imported(node).map_or_else(|| object::data_claim(meta::name(node)), str::to_owned)
}

fn imported(node: &SeiNode) -> Option<&str> {
    let import = node.spec.data_volume.as_ref()?.import.as_ref()?;
    Some(import.pvc_name.as_str()).filter(|name| !name.is_empty())
}
