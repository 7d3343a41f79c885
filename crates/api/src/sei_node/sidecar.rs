//! The sidecar container and its TLS settings.

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::names::port;
use crate::rule::validations;
use crate::schema;

/// The sidecar container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SIDECAR)))]
pub struct SidecarConfig {
    /// Image of the sidecar. Defaults to the image configured on the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,

    /// Port that the sidecar listens on inside the pod.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// Compute resources of the sidecar container. If unset, it has neither requests nor limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Isolation of the containers of the pod from each other. `Shared` is for sidecar images without a Unix socket and a control
    /// directory, like seictl. Defaults to the mode configured on the operator. Changes apply to a running node and replace its
    /// pod once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<SidecarIsolation>,

    /// TLS of the sidecar's API. If unset, the API is served over plain HTTP; requests are authorized either way. Changes apply
    /// to a running node and replace its pod once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<SidecarTls>,
}

fn default_port() -> i32 {
    port::SIDECAR
}

impl Default for SidecarConfig {
    fn default() -> Self {
        Self { image: None, port: port::SIDECAR, resources: None, isolation: None, tls: None }
    }
}

/// How the containers of a pod are isolated from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum SidecarIsolation {
    /// Each container has its own process namespace; the proxy reaches the sidecar over a Unix socket, and the sidecar stops seid
    /// through a control directory.
    #[default]
    Isolated,
    /// The containers share a process namespace; the proxy reaches the sidecar over loopback, and the sidecar sends signals to seid.
    Shared,
}

/// The source of the certificate: a cert-manager issuer, or an existing Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SIDECAR_TLS)))]
pub struct SidecarTls {
    /// Name of the cert-manager issuer that issues the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub issuer_name: Option<String>,

    /// Kind of the issuer. Defaults to `ClusterIssuer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_kind: Option<IssuerKind>,

    /// Name of a Secret of type `kubernetes.io/tls` in the node's namespace. Its certificate must be valid for the node's
    /// Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_name: Option<String>,
}

/// The kind of a cert-manager issuer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum IssuerKind {
    /// A namespaced issuer.
    Issuer,
    /// A cluster-scoped issuer.
    #[default]
    ClusterIssuer,
}
