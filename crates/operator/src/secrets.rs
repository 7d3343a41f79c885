//! Secrets that nodes name: read one by one and only when they have changed, and remembered without what is secret in them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::names::data_key;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::metadata::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use plan::node::SecretSight;
use runtime::Key;
use runtime::watch::{Cache, Change};
use serde_json::Value;

/// The key of a certificate's authority in a Secret.
pub(crate) const AUTHORITY: &str = "ca.crt";

/// The type of a Secret that holds a certificate.
const TLS: &str = "kubernetes.io/tls";

/// Stands for something that is there and is nobody's business.
const SOMETHING: &str = "*";

/// Metadata of Secrets, as a watch sees it.
pub type SecretMeta = PartialObjectMeta<Secret>;

/// The Secrets that nodes name.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
    seen: Vec<Cache<SecretMeta>>,
    read: Arc<Mutex<HashMap<Key, Read>>>,
}

/// A Secret as it was read.
#[derive(Clone)]
struct Read {
    /// The version that the watch showed then, and the version that was read, which may be a later one.
    versions: [String; 2],
    secret: Arc<Secret>,
}

impl Secrets {
    /// Secrets whose metadata these watches see: one of all namespaces, or one for each that is looked after.
    #[must_use]
    pub fn new(client: Client, seen: Vec<Cache<SecretMeta>>) -> Self {
        Self { client, seen, read: Arc::default() }
    }

    /// Waits until the first lists are complete.
    pub async fn synced(&self) {
        for cache in &self.seen {
            cache.synced().await;
        }
    }

    /// What is seen of a Secret. It is read from the API server only in a version that was not read yet. One that the watch
    /// does not show is asked for: a Secret that was made together with its node may be shown a moment after it, and to call
    /// it missing would be a false alarm.
    pub async fn look(&self, namespace: &str, name: &str) -> SecretSight {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        let seen = self.seen.iter().find_map(|cache| cache.get(&key));
        let version = seen.and_then(|seen| seen.resource_version()).unwrap_or_default();
        if !version.is_empty()
            && let Some(read) = self.read().get(&key)
            && read.versions.contains(&version)
        {
            return SecretSight::Found(read.secret.clone());
        }
        match Api::<Secret>::namespaced(self.client.clone(), namespace).get_opt(name).await {
            Ok(Some(secret)) => {
                let versions = [version, secret.resource_version().unwrap_or_default()];
                let secret = Arc::new(public(secret));
                self.read().insert(key, Read { versions, secret: secret.clone() });
                SecretSight::Found(secret)
            }
            Ok(None) => {
                self.read().remove(&key);
                SecretSight::Missing
            }
            Err(error) => SecretSight::Unreadable(why(&error)),
        }
    }

    /// To be told what the watch of metadata sees, so that nothing is remembered of a Secret that is gone.
    pub fn changed(&self, change: &Change<SecretMeta>) {
        if let Change::Gone(secret) = change {
            self.read().remove(&Key::of(&**secret));
        }
    }

    fn read(&self) -> MutexGuard<'_, HashMap<Key, Read>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("read", &self.read().len()).finish_non_exhaustive()
    }
}

/// Why a Secret cannot be read, in few words: they end up in status.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "the operator may not read Secrets there (403): give its ServiceAccount the right".into()
        }
        kube::Error::Api(status) => format!("the API server answers with code {}", status.code),
        _ => "the API server gives no answer".into(),
    }
}

/// What decisions need of a Secret: which keys it has, whether there is something under them, and of JSON its shape. Only
/// certificates are kept as they are. A key that is not in memory cannot be read out of it.
fn public(secret: Secret) -> Secret {
    let is_tls = secret.type_.as_deref() == Some(TLS);
    let data = secret.data.map(|data| {
        let values = data.into_iter().map(|(key, value)| {
            let certificate = is_tls && matches!(key.as_str(), data_key::TLS_CERTIFICATE | AUTHORITY);
            (key, if certificate { value } else { ByteString(shape(&value.0)) })
        });
        values.collect()
    });
    let meta = secret.metadata;
    Secret {
        // Without annotations: `kubectl apply` writes the whole Secret into one.
        metadata: ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            deletion_timestamp: meta.deletion_timestamp,
            ..ObjectMeta::default()
        },
        type_: secret.type_,
        data,
        ..Secret::default()
    }
}

/// A value without its content: nothing stays nothing, JSON stays JSON with the same fields, all else is [`SOMETHING`].
fn shape(value: &[u8]) -> Vec<u8> {
    if value.is_empty() {
        return Vec::new();
    }
    let document = serde_json::from_slice::<Value>(value).ok().map(shape_of);
    document.and_then(|document| serde_json::to_vec(&document).ok()).unwrap_or_else(|| SOMETHING.into())
}

fn shape_of(document: Value) -> Value {
    match document {
        Value::String(text) if !text.is_empty() => Value::String(SOMETHING.into()),
        Value::String(text) => Value::String(text),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, shape_of(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(shape_of).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(type_: &str, data: &[(&str, &str)]) -> Secret {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().into())));
        let metadata = serde_json::from_value(json!({
            "name": "a", "resourceVersion": "7", "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "hush" },
        }));
        public(Secret {
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
    fn of_a_certificate_its_key_is_not_kept() {
        let secret = kept(TLS, &[("tls.crt", "public"), ("ca.crt", "authority"), ("tls.key", "hush")]);
        assert_eq!((value(&secret, "tls.crt"), value(&secret, "ca.crt")), ("public", "authority"));
        assert_eq!(value(&secret, "tls.key"), SOMETHING);
        assert!(!format!("{secret:?}").contains("hush"), "{secret:?}");
        assert_eq!(value(&kept(TLS, &[("tls.key", "")]), "tls.key"), "", "nothing stays nothing");
    }

    #[test]
    fn of_other_secrets_only_the_shape_is_kept() {
        let key =
            r#"{"address":"hush","pub_key":{"type":"hush","value":""},"priv_key":{"value":["hush"]},"n":7}"#;
        let secret = kept(
            "Opaque",
            &[("priv_validator_key.json", key), ("pass", "hush"), ("tls.crt", "hush"), ("none", "")],
        );
        assert!(!serde_json::to_string(&secret).unwrap().contains("hush"));
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
    }
}
