//! The operator resource that requests a check and stores its result.

use std::str::FromStr;

use api::kms::KmsTarget;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use plan::kms::preflight::StoredResult;
use serde_json::{Value, json};

use crate::resource::{
    ApiServer, Authentication, KmsHealth, KubeApiServer, OpenShiftApiServer, api_resource,
};

/// Name of the only object of each kind.
pub(super) const NAME: &str = "cluster";

/// Kind of an operator resource. [`KmsTarget::KmsHealth`] has no preflight and does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperatorKind(KmsTarget);

impl FromStr for OperatorKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [KmsTarget::KubeApiServer, KmsTarget::OpenShiftApiServer, KmsTarget::Authentication]
            .into_iter()
            .find(|target| target.api_version_and_kind().1 == text)
            .map(Self)
            .ok_or_else(|| "expected KubeAPIServer, OpenShiftAPIServer or Authentication".into())
    }
}

impl OperatorKind {
    pub(super) fn target(self) -> KmsTarget {
        self.0
    }

    pub(super) fn api(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.api_resource())
    }

    fn api_resource(self) -> ApiResource {
        match self.0 {
            KmsTarget::KubeApiServer => api_resource::<KubeApiServer>(),
            KmsTarget::OpenShiftApiServer => api_resource::<OpenShiftApiServer>(),
            KmsTarget::Authentication => api_resource::<Authentication>(),
            KmsTarget::KmsHealth => api_resource::<KmsHealth>(),
        }
    }

    /// Returns the identity that starts a server-side apply.
    pub(super) fn apply_identity(self) -> Value {
        let (api_version, kind) = self.0.api_version_and_kind();
        json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": NAME } })
    }

    /// Returns a status with this value as `encryptionStatus`.
    pub(super) fn status_with(self, encryption_status: Value) -> Value {
        match self.0 {
            KmsTarget::Authentication => {
                json!({ "oauthAPIServer": { "encryptionStatus": encryption_status } })
            }
            _ => json!({ "encryptionStatus": encryption_status }),
        }
    }

    fn preflight(self, object: &DynamicObject) -> &Value {
        let status = &object.data["status"];
        match self.0 {
            KmsTarget::Authentication => &status["oauthAPIServer"]["encryptionStatus"]["preflight"],
            _ => &status["encryptionStatus"]["preflight"],
        }
    }

    /// Returns the configuration hash for which a check is requested.
    pub(super) fn requested_hash(self, object: &DynamicObject) -> Option<String> {
        let hash = self.preflight(object)["observedConfigHash"].as_str()?;
        (!hash.is_empty()).then(|| hash.to_owned())
    }

    /// Returns the stored result.
    pub(super) fn stored_result(self, object: &DynamicObject) -> Option<StoredResult> {
        let result = &self.preflight(object)["result"];
        let hash = result["configHash"].as_str()?.to_owned();
        Some(StoredResult { succeeded: result["status"] == "Succeeded", hash })
    }
}

/// The `APIServer` resources, which configure encryption.
pub(super) fn api_servers(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &api_resource::<ApiServer>())
}
