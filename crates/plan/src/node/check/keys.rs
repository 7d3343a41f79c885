//! Keys of validators: only their shape is looked at. What they open is none of the operator's business.

use api::names::data_key;
use api::sei_node::KeyringSecret;
use serde_json::Value;

use super::{Verdict, secret, value};
use crate::node::world::{SecretSight, World};

/// Fields that a key which signs blocks has.
const SIGNING_KEY_FIELDS: [&str; 5] =
    ["/address", "/pub_key/type", "/pub_key/value", "/priv_key/type", "/priv_key/value"];

/// Fields that a key which identifies a node has.
const NODE_KEY_FIELDS: [&str; 2] = ["/priv_key/type", "/priv_key/value"];

/// Whether a Secret holds a key that signs blocks.
pub(crate) fn signing_key(name: &str, world: &World) -> Verdict {
    json_key(name, world.secrets.get(name), data_key::SIGNING_KEY, &SIGNING_KEY_FIELDS)
}

/// Whether a Secret holds a key that identifies a node.
pub(crate) fn node_key(name: &str, world: &World) -> Verdict {
    json_key(name, world.secrets.get(name), data_key::NODE_KEY, &NODE_KEY_FIELDS)
}

fn json_key(name: &str, sight: Option<&SecretSight>, key: &str, fields: &[&str]) -> Verdict {
    if name.is_empty() {
        return Verdict::Unfit("the name of the Secret is empty".into());
    }
    let bytes = match value(name, sight, key) {
        Ok(bytes) => bytes,
        Err(verdict) => return verdict,
    };
    // Nothing of the content goes into a message: it is a key.
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else {
        return Verdict::Unfit(format!("Secret {name}: {key} is not JSON"));
    };
    let missing = fields.iter().find(|field| {
        let value = document.pointer(field).and_then(Value::as_str);
        value.is_none_or(str::is_empty)
    });
    match missing {
        None => Verdict::Fit,
        Some(field) => {
            let field = field.trim_start_matches('/').replace('/', ".");
            Verdict::Unfit(format!("Secret {name}: {key} has no {field}"))
        }
    }
}

/// Whether Secrets hold a keyring with a key of that name, and its passphrase.
pub(crate) fn operator_keyring(ring: &KeyringSecret, world: &World) -> Verdict {
    let phrase = &ring.passphrase_secret_ref;
    let keys = keyring(ring, world.secrets.get(&ring.secret_name));
    let passphrase = value(&phrase.secret_name, world.secrets.get(&phrase.secret_name), &phrase.key);
    Verdict::worst([keys, passphrase.err().unwrap_or(Verdict::Fit)])
}

fn keyring(ring: &KeyringSecret, sight: Option<&SecretSight>) -> Verdict {
    let name = &ring.secret_name;
    let secret = match secret(name, sight) {
        Ok(secret) => secret,
        Err(verdict) => return verdict,
    };
    let data = secret.data.clone().unwrap_or_default();
    let of = |ending: &str| -> Vec<(&String, bool)> {
        let found = data.iter().filter(|(key, _)| key.ends_with(ending));
        found.map(|(key, bytes)| (key, bytes.0.is_empty())).collect()
    };
    let infos = of(".info");
    if let Some((key, _)) = infos.iter().find(|(_, empty)| *empty) {
        return Verdict::Unfit(format!("Secret {name}: {key} is empty"));
    }
    let wanted = format!("{}.info", ring.key_name);
    if !infos.iter().any(|(key, _)| **key == wanted) {
        return Verdict::Unfit(format!(
            "Secret {name} has no {wanted}: put the key {} into it",
            ring.key_name
        ));
    }
    if of(".address").is_empty() {
        return Verdict::Unfit(format!(
            "Secret {name} has no *.address: copy the whole keyring-file folder into it"
        ));
    }
    Verdict::Fit
}
