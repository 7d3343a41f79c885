//! Hashes of a KMS configuration, by which the operator and the preflight controller agree on what was checked.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::plugin::{InvalidKmsConfig, PluginKind, RequiredObject};

/// Values of an object by key. `None`: the object does not exist.
pub type Values = Option<BTreeMap<String, Vec<u8>>>;

/// Computes the eight-character hash stored in operator resources. It is short and not keyed; compare [`fingerprint`], too,
/// where collisions matter.
pub fn compute(
    kind: &dyn PluginKind,
    config: &Value,
    find: impl Fn(&RequiredObject) -> Values,
) -> Result<String, InvalidKmsConfig> {
    let mut hash = Fnv1::new();
    hash.add(escape_html(&kind.canonical_config(config)?).as_bytes());
    hash.add(b"\n");
    for need in kind.required_objects(config)? {
        for (key, value) in required_values(&need, find(&need))? {
            hash.add(key.as_bytes());
            hash.add(&value);
        }
    }
    Ok(URL_SAFE.encode(hash.0.to_be_bytes()))
}

/// Returns the required values of an object, sorted by key. Other keys are ignored.
pub fn required_values(
    need: &RequiredObject,
    values: Values,
) -> Result<Vec<(&'static str, Vec<u8>)>, InvalidKmsConfig> {
    let RequiredObject { source, name, keys } = need;
    let Some(mut values) = values else {
        return Err(InvalidKmsConfig(format!("{} {name} not found: create it", source.kind())));
    };
    let mut found = Vec::new();
    for key in keys {
        match values.remove(*key) {
            Some(value) if !value.is_empty() => found.push((*key, value)),
            _ => {
                return Err(InvalidKmsConfig(format!("{} {name} has no key {key:?}: add it", source.kind())));
            }
        }
    }
    Ok(found)
}

/// Escapes HTML characters like Go's JSON encoder.
fn escape_html(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            c => text.push(c),
        }
    }
    text
}

/// 32-bit FNV-1, which multiplies before it XORs, unlike FNV-1a.
struct Fnv1(u32);

impl Fnv1 {
    const fn new() -> Self {
        Self(0x811c_9dc5)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
        }
    }
}

/// Computes an HMAC-SHA-256: collision resistant, and without the key useless for guessing credentials. Parts are
/// length-prefixed, so that moving a byte between parts changes the result.
#[must_use]
pub fn fingerprint<'a>(key: &[u8], parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    const BLOCK: usize = 64;
    let mut padded = [0; BLOCK];
    if key.len() > BLOCK {
        padded[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let keyed = |with: u8| Sha256::new().chain_update(padded.map(|byte| byte ^ with));
    let mut inner = keyed(0x36);
    for part in parts {
        inner.update((part.len() as u64).to_be_bytes());
        inner.update(part);
    }
    let outer = keyed(0x5c).chain_update(inner.finalize()).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
