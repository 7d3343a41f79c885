//! The claim of a node's data volume.

use api::SeiNode;
use api::names::{label, object};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{RenderError, meta, resources};
use crate::node::is_retained;
use crate::platform::Platform;

/// Renders the claim of a node's data volume. Fails for a node that imports a claim.
pub fn data_claim(node: &SeiNode, platform: &Platform) -> Result<PersistentVolumeClaim, RenderError> {
    if let Some(name) = imported(node) {
        return Err(RenderError(format!("the node imports PersistentVolumeClaim {name}")));
    }
    let mut labels = meta::labels(node);
    // Only the operator says which claims are retained: not the labels of the spec.
    labels.retain(|name, _| name != label::RETAINED_BY && name != label::SET_UP);
    let is_retained = is_retained(node);
    if is_retained {
        labels.insert(label::RETAINED_BY.into(), meta::name(node).into());
    }
    let mut metadata = meta::object_meta(node, name(node), labels);
    metadata.owner_references.take_if(|_| is_retained);
    let default = meta::kind(node)?.storage(platform);
    let own = node.spec.storage.as_ref();
    let size = own.and_then(|own| own.size.as_ref()).map_or(default.size.as_str(), |size| size.0.as_str());
    let class = own.and_then(|own| own.storage_class_name.as_deref()).filter(|class| !class.is_empty());
    Ok(PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            resources: Some(request(size)?),
            storage_class_name: Some(class.unwrap_or(&default.class).to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// Renders the change of an existing claim to another size. Its other fields are left out: they are immutable, and the claim may
/// have been created with other defaults.
pub fn resized_claim(live: &PersistentVolumeClaim, size: &str) -> Result<PersistentVolumeClaim, RenderError> {
    Ok(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: live.metadata.name.clone(),
            namespace: live.metadata.namespace.clone(),
            owner_references: live.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            resources: Some(request(size)?),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

fn request(size: &str) -> Result<VolumeResourceRequirements, RenderError> {
    Ok(VolumeResourceRequirements {
        requests: Some(resources::resource_list("volume", [("storage", size)])?),
        ..VolumeResourceRequirements::default()
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
