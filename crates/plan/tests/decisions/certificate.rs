//! Certificates for the nodes of the model, made once.

use std::sync::OnceLock;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

/// The nodes of the model.
pub const NODES: [&str; 2] = ["a", "b"];

/// The namespace of the nodes.
pub const NAMESPACE: &str = "sei";

/// The Secret of a node's certificate, if the name is that of one.
pub fn secret(name: &str) -> Option<Secret> {
    let node = NODES.iter().find(|node| format!("{node}-sidecar-tls") == name)?;
    static MADE: OnceLock<Vec<(String, Secret)>> = OnceLock::new();
    let all = MADE.get_or_init(|| NODES.iter().map(|node| ((*node).to_owned(), make(node))).collect());
    all.iter().find(|(of, _)| of == node).map(|(_, secret)| secret.clone())
}

fn make(node: &str) -> Secret {
    let names = [
        format!("{node}.{NAMESPACE}.svc.cluster.local"),
        format!("{node}-0.{node}.{NAMESPACE}.svc.cluster.local"),
    ];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let data = [
        ("tls.crt".to_owned(), ByteString(made.cert.pem().into_bytes())),
        ("tls.key".to_owned(), ByteString(made.signing_key.serialize_pem().into_bytes())),
    ];
    Secret { type_: Some("kubernetes.io/tls".into()), data: Some(data.into()), ..Secret::default() }
}
