//! The encryption configuration of an API server.

use serde_json::{Value, json};

/// Returns an EncryptionConfiguration that encrypts Secrets with these KMS keys, the first of which is the write key.
pub fn encryption_config(keys: &[u64]) -> Value {
    let kms = |key: &u64| {
        let endpoint = format!("unix:///var/run/kmsplugin/kms-{key}.sock");
        json!({ "kms": { "apiVersion": "v2", "name": format!("{key}_secrets"), "endpoint": endpoint, "timeout": "10s" } })
    };
    let mut providers: Vec<Value> = keys.iter().map(kms).collect();
    providers.push(json!({ "identity": {} }));
    let resources = json!([{ "resources": ["secrets"], "providers": providers }]);
    json!({ "kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "resources": resources })
}
