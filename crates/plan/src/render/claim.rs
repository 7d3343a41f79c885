//! The claim of a node's data volume.

use api::SeiNode;
use api::names::object;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};

use super::{RenderError, meta, resources};
use crate::platform::Platform;

/// Renders the claim of a node's data volume. Fails for a node that imports a claim.
pub fn data_claim(node: &SeiNode, platform: &Platform) -> Result<PersistentVolumeClaim, RenderError> {
    if let Some(name) = imported(node) {
        return Err(RenderError(format!("the node imports PersistentVolumeClaim {name}")));
    }
    let storage = meta::kind(node)?.storage(platform);
    Ok(PersistentVolumeClaim {
        metadata: meta::object_meta(node, name(node), meta::labels(node)),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(resources::resource_list("volume", [("storage", storage.size.as_str())])?),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: Some(storage.class.clone()),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// Returns the name of the claim that a node's pods mount: the imported one, or its own.
pub(super) fn name(node: &SeiNode) -> String {
    imported(node).map_or_else(|| object::data_claim(meta::name(node)), str::to_owned)
}

fn imported(node: &SeiNode) -> Option<&str> {
    let import = node.spec.data_volume.as_ref()?.import.as_ref()?;
    Some(import.pvc_name.as_str()).filter(|name| !name.is_empty())
}
