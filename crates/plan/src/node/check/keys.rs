//! Validates the keys of validators. Only their form is checked, never what they sign or unlock.

use api::names::data_key;
use api::sei_node::KeyringSecret;
use serde_json::Value;

use super::{CheckResult, secret, value};
use crate::node::observed::{Observed, SecretObservation};

/// The fields of a key that signs blocks.
const SIGNING_KEY_FIELDS: [&str; 5] =
    ["/address", "/pub_key/type", "/pub_key/value", "/priv_key/type", "/priv_key/value"];

/// The fields of a key that identifies a node.
const NODE_KEY_FIELDS: [&str; 2] = ["/priv_key/type", "/priv_key/value"];

/// Validates a Secret with a key that signs blocks.
pub(crate) fn signing_key(name: &str, observed: &Observed) -> CheckResult {
    json_key(name, observed.secrets.get(name), data_key::SIGNING_KEY, &SIGNING_KEY_FIELDS)
}

/// Validates a Secret with a key that identifies a node.
pub(crate) fn node_key(name: &str, observed: &Observed) -> CheckResult {
    json_key(name, observed.secrets.get(name), data_key::NODE_KEY, &NODE_KEY_FIELDS)
}

fn json_key(name: &str, observed: Option<&SecretObservation>, key: &str, fields: &[&str]) -> CheckResult {
    if name.is_empty() {
        return CheckResult::Invalid("the name of the Secret is empty: set it in the spec".into());
    }
    let bytes = match value(name, observed, key) {
        Ok(bytes) => bytes,
        Err(result) => return result,
    };
    // The content is a key: it must not appear in a message.
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else {
        return CheckResult::Invalid(format!("Secret {name}: {key} is not JSON"));
    };
    let missing = fields.iter().find(|field| {
        let value = document.pointer(field).and_then(Value::as_str);
        value.is_none_or(str::is_empty)
    });
    match missing {
        None => CheckResult::Valid,
        Some(field) => {
            let field = field.trim_start_matches('/').replace('/', ".");
            CheckResult::Invalid(format!("Secret {name}: {key} has no {field}"))
        }
    }
}

/// Validates the Secrets with a keyring and its passphrase.
pub(crate) fn operator_keyring(keyring: &KeyringSecret, observed: &Observed) -> CheckResult {
    let phrase = &keyring.passphrase_secret_ref;
    let keys = check_keyring(keyring, observed.secrets.get(&keyring.secret_name));
    let passphrase = value(&phrase.secret_name, observed.secrets.get(&phrase.secret_name), &phrase.key);
    CheckResult::worst([keys, passphrase.err().unwrap_or(CheckResult::Valid)])
}

fn check_keyring(keyring: &KeyringSecret, observed: Option<&SecretObservation>) -> CheckResult {
    let name = &keyring.secret_name;
    let secret = match secret(name, observed) {
        Ok(secret) => secret,
        Err(result) => return result,
    };
    let data = secret.data.clone().unwrap_or_default();
    let with_ending = |ending: &str| -> Vec<(&String, bool)> {
        let found = data.iter().filter(|(key, _)| key.ends_with(ending));
        found.map(|(key, bytes)| (key, bytes.0.is_empty())).collect()
    };
    let infos = with_ending(".info");
    if let Some((key, _)) = infos.iter().find(|(_, empty)| *empty) {
        return CheckResult::Invalid(format!("Secret {name}: {key} is empty"));
    }
    let required = format!("{}.info", keyring.key_name);
    if !infos.iter().any(|(key, _)| **key == required) {
        return CheckResult::Invalid(format!(
            "Secret {name} has no {required}: add the key {}",
            keyring.key_name
        ));
    }
    if with_ending(".address").is_empty() {
        return CheckResult::Invalid(format!(
            "Secret {name} has no *.address: copy the whole keyring-file directory into it"
        ));
    }
    CheckResult::Valid
}
