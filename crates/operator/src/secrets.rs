//! Reads the Secrets that nodes reference: by name, at a bounded rate, and cached without their secret values. The operator is permitted
//! neither to list nor to watch Secrets.
//!
//! A Secret that a node waits for is read each time the node polls, at most once a second. Otherwise a copy is used for five minutes,
//! unless something shows that it is outdated: a change of its Certificate, a sidecar that does not serve its certificate, or a
//! refused write.

mod key_pair;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::cert_manager::CERTIFICATE_NAME_ANNOTATION;
use api::names::{data_key, label};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::metadata::PartialObjectMeta;
use kube::{Api, Client};
use plan::node::{ObservedSecret, SecretObservation, certificate_expiry};
use runtime::Key;
use runtime::sync::lock;
use serde_json::Value;
use tokio::time::Instant;

/// The key of the CA certificate in a TLS Secret.
pub(crate) const CA_CERTIFICATE: &str = "ca.crt";

/// The type of a TLS Secret.
const TLS_TYPE: &str = "kubernetes.io/tls";

/// Replaces a value that is not empty.
const REDACTED: &str = "*";

/// How long a copy is used that nothing shows to be outdated: twelve reads an hour for each Secret.
const TTL: Duration = Duration::from_mins(5);

/// How long a copy is used of a Secret that a node waits for, or that could not be read. Waiting nodes poll every 250 ms to 5 s.
const AWAITED_TTL: Duration = Duration::from_secs(1);

/// How soon a Secret is read again whose certificate a sidecar does not serve. The sidecar may be another server, which never will.
const MISMATCH_INTERVAL: Duration = Duration::from_secs(5);

/// How long an entry is kept that is not used any more.
const KEPT_FOR: Duration = Duration::from_mins(15);

/// The metadata of a Secret.
pub type SecretMeta = PartialObjectMeta<Secret>;

/// How old a copy of a Secret may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// A few minutes, unless something shows that it is outdated.
    Cached,
    /// A second: the node waits for the Secret, or validates it now.
    Awaited,
}

/// Reads and caches the Secrets that nodes reference. Clones share their cache.
#[derive(Clone)]
pub struct SecretReader {
    client: Client,
    cache: Arc<Mutex<SecretCache>>,
}

#[derive(Default)]
struct SecretCache {
    entries: HashMap<Key, Entry>,
    /// Counts calls of [`SecretReader::expire`]: what was requested before the last one may be outdated.
    expirations: u64,
    swept_at: Option<Instant>,
}

struct Entry {
    observation: SecretObservation,
    read_at: Instant,
    is_outdated: bool,
    /// When the certificate expires, in seconds since 1970.
    expires_at: Option<i64>,
}

impl Entry {
    fn is_usable(&self, freshness: Freshness) -> bool {
        let is_unreadable = matches!(self.observation, SecretObservation::Unreadable(_));
        let ttl = if is_unreadable || freshness == Freshness::Awaited { AWAITED_TTL } else { TTL };
        !self.is_outdated && self.read_at.elapsed() < ttl
    }
}

impl SecretCache {
    fn insert(&mut self, key: Key, entry: Entry) {
        if self.swept_at.is_none_or(|swept_at| swept_at.elapsed() >= TTL) {
            self.swept_at = Some(Instant::now());
            self.entries.retain(|_, entry| entry.read_at.elapsed() < KEPT_FOR);
        }
        self.entries.insert(key, entry);
    }
}

impl SecretReader {
    /// Creates a reader.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, cache: Arc::default() }
    }

    /// Returns a Secret: a copy, if it is new enough.
    pub async fn get(&self, namespace: &str, name: &str, freshness: Freshness) -> SecretObservation {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        let expirations = {
            let cache = lock(&self.cache);
            if let Some(entry) = cache.entries.get(&key).filter(|entry| entry.is_usable(freshness)) {
                return entry.observation.clone();
            }
            cache.expirations
        };
        let read = Api::<Secret>::namespaced(self.client.clone(), namespace).get_opt(name).await;
        let (observation, expires_at) = match read {
            Ok(Some(secret)) => {
                let (key_pair, expires_at) = (key_pair::check(&secret), certificate_expiry(&secret));
                let secret = Arc::new(ObservedSecret { secret: redact(secret), key_pair });
                (SecretObservation::Found(secret), expires_at)
            }
            Ok(None) => (SecretObservation::Missing, None),
            Err(error) => {
                if let Some(copy) = self.copy_despite(&error, &key, freshness) {
                    return copy;
                }
                (SecretObservation::Unreadable(describe(&error, namespace)), None)
            }
        };
        let mut cache = lock(&self.cache);
        let is_outdated = cache.expirations != expirations;
        let entry =
            Entry { observation: observation.clone(), read_at: Instant::now(), is_outdated, expires_at };
        cache.insert(key, entry);
        observation
    }

    /// Returns the copy of a Secret that could not be read because the API server is unavailable, if no newer one is needed. A
    /// converged node must not suffer from that.
    fn copy_despite(
        &self,
        error: &kube::Error,
        key: &Key,
        freshness: Freshness,
    ) -> Option<SecretObservation> {
        let is_denied = matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403));
        if is_denied || freshness == Freshness::Awaited {
            return None;
        }
        let mut cache = lock(&self.cache);
        let entry = cache.entries.get_mut(key)?;
        let is_found = matches!(entry.observation, SecretObservation::Found(_));
        // The next reconcile of the node tries again.
        entry.is_outdated = true;
        is_found.then(|| entry.observation.clone())
    }

    /// Records the metadata that the API server returned for a write, so that the Secret is not read again. Returns the Secret as it is
    /// stored now, if it was read before.
    pub(crate) fn record_write(&self, written: &SecretMeta) -> Option<SecretObservation> {
        let mut cache = lock(&self.cache);
        let entry = cache.entries.get_mut(&Key::from_object(written))?;
        let SecretObservation::Found(before) = &entry.observation else { return None };
        let mut observed = ObservedSecret::clone(before);
        observed.secret.metadata = redact_metadata(written.metadata.clone());
        entry.observation = SecretObservation::Found(Arc::new(observed));
        Some(entry.observation.clone())
    }

    /// Returns when the certificate in a Secret expires, in seconds since 1970, if the Secret was read.
    pub(crate) fn certificate_expiry(&self, secret: &Key) -> Option<i64> {
        lock(&self.cache).entries.get(secret)?.expires_at
    }

    /// Marks the copy of a Secret as outdated: its Certificate has changed, or a write that was based on it was refused.
    pub fn expire(&self, secret: &Key) {
        let mut cache = lock(&self.cache);
        cache.expirations += 1;
        if let Some(entry) = cache.entries.get_mut(secret) {
            entry.is_outdated = true;
        }
    }

    /// Marks the copy of a Secret as outdated whose certificate a sidecar does not serve, unless it was read a moment ago.
    pub fn expire_after_mismatch(&self, secret: &Key) {
        if let Some(entry) = lock(&self.cache).entries.get_mut(secret)
            && entry.read_at.elapsed() >= MISMATCH_INTERVAL
        {
            entry.is_outdated = true;
        }
    }
}

impl fmt::Debug for SecretReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretReader")
            .field("cached", &lock(&self.cache).entries.len())
            .finish_non_exhaustive()
    }
}

/// Describes a failed read for the status of a node. The text is short and does not change from retry to retry.
fn describe(error: &kube::Error, namespace: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "the operator is not permitted to read Secrets in namespace {namespace} (403): apply deploy/operator/node-namespace in that \
             namespace, as examples/nodes does"
        ),
        kube::Error::Api(status) => format!("the API server returned status {}", status.code),
        _ => "the API server did not respond".into(),
    }
}

/// Removes the secret values. Decisions need the keys of a Secret, whether a value is empty, and the shape of JSON; only
/// certificates are kept. A private key that is not in memory cannot leak from it.
fn redact(secret: Secret) -> Secret {
    let is_tls = secret.type_.as_deref() == Some(TLS_TYPE);
    let data = secret.data.map(|data| {
        let values = data.into_iter().map(|(key, value)| {
            let is_public = is_tls && matches!(key.as_str(), data_key::TLS_CERTIFICATE | CA_CERTIFICATE);
            (key, if is_public { value } else { ByteString(redact_value(&value.0)) })
        });
        values.collect()
    });
    Secret { metadata: redact_metadata(secret.metadata), type_: secret.type_, data, ..Secret::default() }
}

/// Removes all annotations and labels but those that decisions need: `kubectl apply` stores the whole Secret in one.
fn redact_metadata(meta: ObjectMeta) -> ObjectMeta {
    let mut labels = meta.labels.unwrap_or_default();
    labels.retain(|name, _| name == label::NODE);
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.retain(|name, _| name == CERTIFICATE_NAME_ANNOTATION);
    ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        deletion_timestamp: meta.deletion_timestamp,
        owner_references: meta.owner_references,
        annotations: (!annotations.is_empty()).then_some(annotations),
        labels: (!labels.is_empty()).then_some(labels),
        ..ObjectMeta::default()
    }
}

/// Redacts a value: an empty one stays empty, JSON keeps its fields, anything else becomes [`REDACTED`].
fn redact_value(value: &[u8]) -> Vec<u8> {
    if value.is_empty() {
        return Vec::new();
    }
    let document = serde_json::from_slice::<Value>(value).ok().map(redact_json);
    document.and_then(|document| serde_json::to_vec(&document).ok()).unwrap_or_else(|| REDACTED.into())
}

fn redact_json(document: Value) -> Value {
    match document {
        Value::String(text) if !text.is_empty() => Value::String(REDACTED.into()),
        Value::String(text) => Value::String(text),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, redact_json(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(redact_json).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn redacted(type_: &str, data: &[(&str, &str)]) -> Secret {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().into())));
        let metadata = serde_json::from_value(json!({
            "name": "a", "resourceVersion": "7",
            "labels": { "sei.io/node": "a", "team": "hidden" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "hidden", "cert-manager.io/certificate-name": "b" },
            "ownerReferences": [{ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "b", "uid": "u" }],
        }));
        redact(Secret {
            type_: Some(type_.into()),
            data: Some(data.collect()),
            metadata: metadata.unwrap(),
            ..Secret::default()
        })
    }

    fn value<'a>(secret: &'a Secret, key: &str) -> &'a str {
        std::str::from_utf8(&secret.data.as_ref().unwrap()[key].0).unwrap()
    }

    #[test]
    fn private_key_of_tls_secret_is_redacted() {
        let secret = redacted(TLS_TYPE, &[("tls.crt", "public"), ("ca.crt", "ca"), ("tls.key", "hidden")]);
        assert_eq!((value(&secret, "tls.crt"), value(&secret, "ca.crt")), ("public", "ca"));
        assert_eq!(value(&secret, "tls.key"), REDACTED);
        assert!(!format!("{secret:?}").contains("hidden"), "{secret:?}");
        assert_eq!(
            value(&redacted(TLS_TYPE, &[("tls.key", "")]), "tls.key"),
            "",
            "an empty value stays empty"
        );
    }

    #[test]
    fn other_secrets_keep_only_their_shape() {
        let key = r#"{"address":"hidden","pub_key":{"type":"hidden","value":""},"priv_key":{"value":["hidden"]},"n":7}"#;
        let secret = redacted(
            "Opaque",
            &[("priv_validator_key.json", key), ("pass", "hidden"), ("tls.crt", "hidden"), ("none", "")],
        );
        assert!(!serde_json::to_string(&secret).unwrap().contains("hidden"));
        let shape: Value = serde_json::from_str(value(&secret, "priv_validator_key.json")).unwrap();
        assert_eq!(
            shape,
            json!({ "address": "*", "pub_key": { "type": "*", "value": "" }, "priv_key": { "value": ["*"] }, "n": null })
        );
        assert_eq!(
            (value(&secret, "pass"), value(&secret, "none"), value(&secret, "tls.crt")),
            ("*", "", "*")
        );
        assert_eq!(secret.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(secret.labels()["sei.io/node"], "a");
        assert_eq!(secret.annotations()["cert-manager.io/certificate-name"], "b");
        assert_eq!(secret.owner_references()[0].uid, "u");
    }
}
