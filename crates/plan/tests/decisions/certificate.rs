//! Certificates of the nodes in the model, created once.

use std::sync::OnceLock;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

/// The names of the nodes in the model.
pub const NODES: [&str; 2] = ["a", "b"];

/// The namespace of the nodes.
pub const NAMESPACE: &str = "sei";

/// Returns the Secret with the certificate of a node, by its name.
pub fn secret(name: &str) -> Option<Secret> {
    let node = NODES.iter().find(|node| format!("{node}-sidecar-tls") == name)?;
    static SECRETS: OnceLock<Vec<(String, Secret)>> = OnceLock::new();
    let all = SECRETS.get_or_init(|| NODES.iter().map(|node| ((*node).to_owned(), create(node))).collect());
    all.iter().find(|(name, _)| name == node).map(|(_, secret)| secret.clone())
}

fn create(node: &str) -> Secret {
    let names = [
        format!("{node}.{NAMESPACE}.svc.cluster.local"),
        format!("{node}-0.{node}.{NAMESPACE}.svc.cluster.local"),
    ];
    let certificate = rcgen::generate_simple_self_signed(names).unwrap();
    let data = [
        ("tls.crt".to_owned(), ByteString(certificate.cert.pem().into_bytes())),
        ("tls.key".to_owned(), ByteString(certificate.signing_key.serialize_pem().into_bytes())),
    ];
    Secret { type_: Some("kubernetes.io/tls".into()), data: Some(data.into()), ..Secret::default() }
}
