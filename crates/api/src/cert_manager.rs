//! The subset of cert-manager's API that Outrigger uses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::sei_node::IssuerKind;

/// Annotation of a Secret with the name of the Certificate that it was issued for.
pub const CERTIFICATE_NAME_ANNOTATION: &str = "cert-manager.io/certificate-name";

/// Desired state of a Certificate.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "cert-manager.io",
    version = "v1",
    kind = "Certificate",
    namespaced,
    status = "CertificateStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSpec {
    /// Name of the Secret for the certificate.
    #[serde(default)]
    pub secret_name: String,

    /// Lifetime of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,

    /// How long before expiry the certificate is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_before: Option<String>,

    /// Common name of the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_name: Option<String>,

    /// DNS subject alternative names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_names: Vec<String>,

    /// Reference to the issuer.
    pub issuer_ref: IssuerRef,
}

/// A reference to an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerRef {
    /// Name of the issuer.
    pub name: String,
    /// Kind of the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<IssuerKind>,
    /// API group of the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Observed state of a Certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Conditions of the certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CertificateCondition>,

    /// Number of the latest issued certificate. Every issuance changes it, after its Secret was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// Time of the last failed issuance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_time: Option<Time>,
}

/// A condition of a Certificate. Unlike in `metav1.Condition`, times and generation may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition: True, False or Unknown.
    pub status: String,
    /// CamelCase reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation that the condition is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
