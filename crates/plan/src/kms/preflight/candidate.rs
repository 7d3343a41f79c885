//! Candidate encryption configuration: the new plugin encrypts, existing plugins still decrypt.

use serde_json::{Value, json};

use crate::kms::config_hash::{Values, required_values};
use crate::kms::plugin::{InvalidKmsConfig, ObjectKind, RequiredObject, parse_kms_spec};
use crate::kms::providers;
use crate::kms::secret_layout::{EncryptionSecret, ObjectKeyRef, PluginData};

/// Builds the Secret content to check a configuration with. `kms` is the value of `spec.encryption.kms`, `current` the content that
/// API servers use.
pub fn build_candidate(
    kms: &Value,
    current: Option<&EncryptionSecret>,
    find: impl Fn(&RequiredObject) -> Values,
) -> Result<EncryptionSecret, InvalidKmsConfig> {
    let (kind, config) = parse_kms_spec(kms, "APIServer cluster")?;
    let deployed = match current.and_then(|content| content.config.as_deref()) {
        Some(config) => providers::parse(config)?,
        None => Vec::new(),
    };
    let known = current.into_iter().flat_map(|content| content.plugins.keys().copied());
    let newest = known.chain(deployed.iter().map(|provider| provider.key_id)).max().unwrap_or(0);
    let key_id = newest.checked_add(1).ok_or_else(|| InvalidKmsConfig("key numbers are exhausted".into()))?;
    let mut plugin = PluginData { config: Some(envelope(kms)), ..PluginData::default() };
    for need in kind.required_objects(&config)? {
        let values = match need.source {
            ObjectKind::Secret => &mut plugin.secrets,
            ObjectKind::ConfigMap => &mut plugin.config_maps,
        };
        for (key, value) in required_values(&need, find(&need))? {
            values.insert(ObjectKeyRef::new(&need.name, key)?, value);
        }
    }
    let mut content = EncryptionSecret::default();
    for provider in &deployed {
        if let Some(data) = current.and_then(|content| content.plugins.get(&provider.key_id)) {
            content.plugins.insert(provider.key_id, data.clone());
        }
    }
    content.plugins.insert(key_id, plugin);
    let ids = [key_id].into_iter().chain(deployed.iter().map(|provider| provider.key_id));
    content.config = Some(encryption_config(ids));
    Ok(content)
}

fn envelope(kms: &Value) -> Vec<u8> {
    let spec = json!({ "encryption": { "type": "KMS", "kms": kms } });
    json!({ "apiVersion": "config.openshift.io/v1", "kind": "APIServer", "spec": spec })
        .to_string()
        .into_bytes()
}

fn encryption_config(ids: impl Iterator<Item = u64>) -> Vec<u8> {
    let kms = |id: u64| {
        let endpoint = providers::endpoint(id);
        json!({ "kms": { "apiVersion": "v2", "name": format!("{id}_secrets"), "endpoint": endpoint, "timeout": "10s" } })
    };
    let all: Vec<Value> = ids.map(kms).collect();
    let resources = json!([{ "resources": ["secrets"], "providers": all }]);
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources,
    });
    document.to_string().into_bytes()
}
