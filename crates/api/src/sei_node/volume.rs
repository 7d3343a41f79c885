//! The data volume.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;

/// The volume for the chain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct DataVolume {
    /// Existing volume to use. The operator never changes or deletes it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<VolumeImport>,
}

/// An existing volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeImport {
    /// Name of a PersistentVolumeClaim in the node's namespace. Immutable.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub pvc_name: String,
}
