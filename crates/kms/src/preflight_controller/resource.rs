//! The operator's resource: which kind it is, and where in it the check is asked for and answered.

use std::str::FromStr;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use plan::kms::preflight::Stored;
use serde_json::{Value, json};

use crate::resource::{ApiServer, Authentication, KubeApiServer, OpenShiftApiServer, dynamic};

/// The name of the one object of each kind.
pub(super) const NAME: &str = "cluster";

/// A kind of operator resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    KubeAPIServer,
    OpenShiftAPIServer,
    Authentication,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "KubeAPIServer" => Ok(Self::KubeAPIServer),
            "OpenShiftAPIServer" => Ok(Self::OpenShiftAPIServer),
            "Authentication" => Ok(Self::Authentication),
            _ => Err("it must be KubeAPIServer, OpenShiftAPIServer or Authentication".into()),
        }
    }
}

impl Kind {
    /// Objects of the kind.
    pub(super) fn api(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::KubeAPIServer => dynamic::<KubeApiServer>(),
            Self::OpenShiftAPIServer => dynamic::<OpenShiftApiServer>(),
            Self::Authentication => dynamic::<Authentication>(),
        }
    }

    /// How an apply names the object.
    pub(super) fn identity(self) -> Value {
        let resource = self.resource();
        json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": { "name": NAME } })
    }

    /// A status with this under `encryptionStatus`.
    pub(super) fn status(self, encryption: Value) -> Value {
        match self {
            Self::Authentication => json!({ "oauthAPIServer": { "encryptionStatus": encryption } }),
            _ => json!({ "encryptionStatus": encryption }),
        }
    }

    fn preflight(self, object: &DynamicObject) -> &Value {
        let status = &object.data["status"];
        match self {
            Self::Authentication => &status["oauthAPIServer"]["encryptionStatus"]["preflight"],
            _ => &status["encryptionStatus"]["preflight"],
        }
    }

    /// The hash that is asked for.
    pub(super) fn asked(self, object: &DynamicObject) -> Option<String> {
        let hash = self.preflight(object)["observedConfigHash"].as_str()?;
        (!hash.is_empty()).then(|| hash.to_owned())
    }

    /// The result that is stored.
    pub(super) fn stored(self, object: &DynamicObject) -> Option<Stored> {
        let result = &self.preflight(object)["result"];
        let hash = result["configHash"].as_str()?.to_owned();
        Some(Stored { succeeded: result["status"] == "Succeeded", hash })
    }
}

/// The resource that configures encryption.
pub(super) fn api_servers(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &dynamic::<ApiServer>())
}
