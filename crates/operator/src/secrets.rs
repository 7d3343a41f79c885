//! Reads the Secrets that nodes reference: one by one, only when they have changed, and cached without their secret values.

mod key_pair;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use api::cert_manager::CERTIFICATE_NAME_ANNOTATION;
use api::names::{data_key, label};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::metadata::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use plan::node::{ObservedSecret, SecretObservation, certificate_expiry};
use runtime::Key;
use runtime::sync::lock;
use runtime::watch::{Cache, Change};
use serde_json::Value;

/// The key of the CA certificate in a TLS Secret.
pub(crate) const CA_CERTIFICATE: &str = "ca.crt";

/// The type of a TLS Secret.
const TLS_TYPE: &str = "kubernetes.io/tls";

/// Replaces a value that is not empty.
const REDACTED: &str = "*";

/// The metadata of a Secret.
pub type SecretMeta = PartialObjectMeta<Secret>;

/// Reads and caches the Secrets that nodes reference.
#[derive(Clone)]
pub struct SecretReader {
    client: Client,
    metadata: Vec<Cache<SecretMeta>>,
    cache: Arc<Mutex<HashMap<Key, CachedSecret>>>,
}

#[derive(Clone)]
struct CachedSecret {
    /// The version in the watch at the time of the read, and the version that was read, which may be newer.
    versions: [String; 2],
    secret: Arc<ObservedSecret>,
    /// When its certificate expires, in seconds since 1970.
    expires_at: Option<i64>,
}

impl SecretReader {
    /// Creates a reader. `metadata` has one cache for all namespaces, or one for each watched namespace.
    #[must_use]
    pub fn new(client: Client, metadata: Vec<Cache<SecretMeta>>) -> Self {
        Self { client, metadata, cache: Arc::default() }
    }

    /// Waits until the initial lists are complete.
    pub async fn wait_synced(&self) {
        for cache in &self.metadata {
            cache.wait_synced().await;
        }
    }

    /// Returns a Secret. Each version is read from the API server only once. A Secret that the watch has not delivered is
    /// read, too: one that was created together with its node may be delivered after it, and must not be reported missing.
    pub async fn get(&self, namespace: &str, name: &str) -> SecretObservation {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        let metadata = self.metadata.iter().find_map(|cache| cache.get(&key));
        let version = metadata.and_then(|metadata| metadata.resource_version()).unwrap_or_default();
        if !version.is_empty()
            && let Some(cached) = lock(&self.cache).get(&key)
            && cached.versions.contains(&version)
        {
            return SecretObservation::Found(cached.secret.clone());
        }
        match Api::<Secret>::namespaced(self.client.clone(), namespace).get_opt(name).await {
            Ok(Some(secret)) => {
                let versions = [version, secret.resource_version().unwrap_or_default()];
                let (key_pair, expires_at) = (key_pair::check(&secret), certificate_expiry(&secret));
                let secret = Arc::new(ObservedSecret { secret: redact(secret), key_pair });
                lock(&self.cache).insert(key, CachedSecret { versions, secret: secret.clone(), expires_at });
                SecretObservation::Found(secret)
            }
            Ok(None) => {
                lock(&self.cache).remove(&key);
                SecretObservation::Missing
            }
            Err(error) => SecretObservation::Unreadable(describe(&error)),
        }
    }

    /// Records the metadata that the API server returned for a write, so that the Secret is not read again. Returns the Secret as it is
    /// stored now, if it was read before.
    pub(crate) fn record_write(&self, written: &SecretMeta) -> Option<SecretObservation> {
        let mut cache = lock(&self.cache);
        let cached = cache.get_mut(&Key::from_object(written))?;
        let mut observed = ObservedSecret::clone(&cached.secret);
        let before = observed.secret.resource_version().unwrap_or_default();
        observed.secret.metadata = redact_metadata(written.metadata.clone());
        cached.versions = [before, written.resource_version().unwrap_or_default()];
        cached.secret = Arc::new(observed);
        Some(SecretObservation::Found(cached.secret.clone()))
    }

    /// Returns when the certificate in a Secret expires, in seconds since 1970, if the Secret was read.
    pub(crate) fn certificate_expiry(&self, secret: &Key) -> Option<i64> {
        lock(&self.cache).get(secret)?.expires_at
    }

    /// Handles a change in the watch: a deleted Secret is dropped from the cache.
    pub fn handle_change(&self, change: &Change<SecretMeta>) {
        if let Change::Deleted(secret) = change {
            lock(&self.cache).remove(&Key::from_object(&**secret));
        }
    }
}

impl fmt::Debug for SecretReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretReader").field("cached", &lock(&self.cache).len()).finish_non_exhaustive()
    }
}

/// Describes a failed read for the status of a node. The text is short and does not change from retry to retry.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "the operator is not allowed to read Secrets in this namespace (403): grant its ServiceAccount get on secrets".into()
        }
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
