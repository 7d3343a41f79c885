//! The data volume.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;
use crate::schema;

/// Size and class of the volume that is created for a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Storage {
    /// Size of the volume. Defaults to the size configured on the operator when the node is created. A larger size expands the
    /// volume of a running node without a new pod, if its StorageClass allows that; the condition StorageReady shows the progress.
    /// A volume cannot shrink. Once set, the size cannot be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::size")]
    pub size: Option<Quantity>,

    /// Name of the StorageClass. Defaults to the class configured on the operator when the node is created. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::SUBDOMAIN)))]
    pub storage_class_name: Option<String>,
}

/// The volume for the chain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = validations(rules::DATA_VOLUME)))]
pub struct DataVolume {
    /// Existing volume to use. The operator never changes or deletes it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<VolumeImport>,

    /// What happens to the PersistentVolumeClaim when the node is deleted: Retain or Delete. The default is Retain for validators
    /// and Delete for all other nodes. A new node with the same name uses a retained claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DataDeletionPolicy>,
}

/// What happens to the PersistentVolumeClaim of a node when the node is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum DataDeletionPolicy {
    /// The claim is kept, without an owner.
    Retain,
    /// The claim is deleted.
    Delete,
}

/// An existing volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeImport {
    /// Name of a PersistentVolumeClaim in the node's namespace. Immutable.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub pvc_name: String,
}
