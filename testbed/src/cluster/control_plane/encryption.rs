//! Encryption of Secrets by a KMS v2 plugin.

use std::path::PathBuf;

use serde_json::{Value, json};

/// A KMS v2 plugin that kube-apiserver is to use.
#[derive(Clone, Debug)]
pub struct KmsProvider {
    /// The provider's name; stored values carry it.
    pub name: String,
    /// The plugin's Unix socket.
    pub socket: PathBuf,
}

/// What `--encryption-provider-config` reads. JSON is YAML. What was stored before stays readable.
pub(super) fn configuration(provider: &KmsProvider) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets"],
            "providers": [
                { "kms": {
                    "apiVersion": "v2",
                    "name": provider.name,
                    "endpoint": format!("unix://{}", provider.socket.display()),
                    "timeout": "3s",
                }},
                { "identity": {} },
            ],
        }],
    })
}
