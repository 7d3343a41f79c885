//! Certificates of the nodes in the model, created once.

use std::sync::OnceLock;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rcgen::{CertificateParams, KeyPair};

/// The names of the nodes in the model.
pub const NODES: [&str; 3] = ["a", "b", "c"];

/// The namespace of the nodes.
pub const NAMESPACE: &str = "sei";

/// Returns the Secret with the certificate of a node, by its name.
pub fn secret(name: &str) -> Option<Secret> {
    let node = NODES.iter().find(|node| format!("{node}-sidecar-tls") == name)?;
    static SECRETS: OnceLock<Vec<(String, Secret)>> = OnceLock::new();
    let all = SECRETS.get_or_init(|| NODES.iter().map(|node| ((*node).to_owned(), create(node))).collect());
    all.iter().find(|(name, _)| name == node).map(|(_, secret)| secret.clone())
}

/// Returns the Secret that cert-manager issues for the Certificate of a node.
fn create(node: &str) -> Secret {
    let name = format!("{node}-sidecar-tls");
    let mut secret = named(&name, params(node));
    secret.metadata.annotations = Some([("cert-manager.io/certificate-name".into(), name)].into());
    secret
}

/// Returns the parameters of a certificate with the host names of a node.
pub fn params(node: &str) -> CertificateParams {
    CertificateParams::new([
        format!("{node}.{NAMESPACE}.svc.cluster.local"),
        format!("{node}-0.{node}.{NAMESPACE}.svc.cluster.local"),
    ])
    .unwrap()
}

/// Returns a Secret with a new certificate.
pub fn named(name: &str, params: CertificateParams) -> Secret {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let data = [
        ("tls.crt".to_owned(), ByteString(certificate.pem().into_bytes())),
        ("tls.key".to_owned(), ByteString(key.serialize_pem().into_bytes())),
    ];
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    Secret { metadata, type_: Some("kubernetes.io/tls".into()), data: Some(data.into()), ..Secret::default() }
}
