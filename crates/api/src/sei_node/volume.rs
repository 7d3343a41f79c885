//! The volume that holds the chain's data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;

/// The volume that holds the chain's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct DataVolume {
    /// A volume that exists already. It is never changed or deleted. Decided when the node is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<VolumeImport>,
}

/// A volume that exists already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeImport {
    /// Name of a PersistentVolumeClaim in the node's namespace. It cannot change.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub pvc_name: String,
}
