//! Encryption of Secrets by a KMS v2 plugin.

use std::path::PathBuf;

use serde_json::{Value, json};

/// A KMS v2 provider of kube-apiserver.
#[derive(Clone, Debug)]
pub struct KmsProvider {
    /// Name of the provider, which prefixes stored values.
    pub name: String,
    /// Unix socket of the plugin.
    pub socket: PathBuf,
}

/// Returns the file for `--encryption-provider-config`, as JSON. The identity provider keeps unencrypted values readable.
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
