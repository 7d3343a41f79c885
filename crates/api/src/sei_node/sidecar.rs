//! The sidecar's container, and how it is reached.

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::names::port;
use crate::rule::validations;
use crate::schema;

/// The sidecar's container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SIDECAR)))]
pub struct SidecarConfig {
    /// The sidecar's image. Absent: the one the operator was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,

    /// The port that the sidecar listens on inside the pod.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// CPU and memory of the sidecar's container. Absent: neither requests nor limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Serve the sidecar's API by HTTPS. Absent: plain HTTP, authorized as always. May be set, changed and removed while the
    /// node runs; its pod is replaced once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<SidecarTls>,
}

fn default_port() -> i32 {
    port::SIDECAR
}

impl Default for SidecarConfig {
    fn default() -> Self {
        Self { image: None, port: port::SIDECAR, resources: None, tls: None }
    }
}

/// Where the certificate comes from: an issuer of cert-manager, or a Secret that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SIDECAR_TLS)))]
pub struct SidecarTls {
    /// The issuer of cert-manager that is asked for a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub issuer_name: Option<String>,

    /// What the issuer is. Absent: a `ClusterIssuer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_kind: Option<IssuerKind>,

    /// A Secret of type `kubernetes.io/tls` in the node's namespace whose certificate names the node's Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_name: Option<String>,
}

/// The kinds of issuers that cert-manager has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum IssuerKind {
    /// An issuer for one namespace.
    Issuer,
    /// An issuer for the whole cluster.
    #[default]
    ClusterIssuer,
}
