//! Reads which keys an API server has from its encryption configuration. Secrets are read by name and only when needed; only key
//! numbers and roles are cached.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::kms::ExpectedKey;
use api::names::kms::encryption_config::CONFIG;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use plan::kms::providers;
use runtime::sync::lock;

/// Cache lifetime for revisioned Secrets, which operators do not change.
const REVISION_TTL: Duration = Duration::from_secs(300);

/// Why the deployed keys are unknown. The reconcile fails then, and decides nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// The Secret cannot be read.
    #[error("reading Secret {namespace}/{name}: {source}")]
    Read {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// API error.
        source: Box<kube::Error>,
    },
    /// The Secret does not hold an encryption configuration.
    #[error("Secret {namespace}/{name}: {source}")]
    Malformed {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// Parse error.
        source: providers::InvalidProviders,
    },
}

/// Keys and when they were read, by namespace and name of their Secret.
type KeyCache = HashMap<(String, String), (Instant, Vec<ExpectedKey>)>;

/// Reads and caches the keys of deployed encryption configurations.
pub(super) struct DeployedKeys {
    client: Client,
    secret: String,
    /// Cache lifetime of the Secret without a revision.
    unrevisioned_ttl: Duration,
    cache: Mutex<KeyCache>,
}

impl DeployedKeys {
    pub(super) fn new(client: Client, secret: &str, unrevisioned_ttl: Duration) -> Self {
        Self { client, secret: secret.into(), unrevisioned_ttl, cache: Mutex::default() }
    }

    /// Returns the keys of a revision, or of the Secret without a revision. Empty if the Secret does not exist: nothing is encrypted
    /// then.
    pub(super) async fn keys(
        &self,
        namespace: &str,
        revision: Option<i64>,
    ) -> Result<Vec<ExpectedKey>, Error> {
        let (name, ttl) = match revision {
            Some(revision) => (format!("{}-{revision}", self.secret), REVISION_TTL),
            None => (self.secret.clone(), self.unrevisioned_ttl),
        };
        let cache_key = (namespace.to_owned(), name.clone());
        if let Some((read, keys)) = self.cache().get(&cache_key)
            && read.elapsed() < ttl
        {
            return Ok(keys.clone());
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let namespace = || namespace.to_owned();
        let secret = api.get_opt(&name).await;
        let secret = secret.map_err(|error| Error::Read {
            namespace: namespace(),
            name: name.clone(),
            source: Box::new(error),
        })?;
        let exists = secret.is_some();
        let config = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(CONFIG));
        let keys = match config {
            None => Vec::new(),
            Some(config) => providers::parse(&config.0)
                .map_err(|source| Error::Malformed { namespace: namespace(), name, source })?
                .into_iter()
                .map(|provider| ExpectedKey { key_id: provider.key_id.to_string(), role: provider.role })
                .collect(),
        };
        let mut cache = self.cache();
        cache.retain(|_, (read, _)| read.elapsed() < REVISION_TTL.max(ttl));
        // A missing Secret is not cached: it may be created at any time.
        if exists {
            cache.insert(cache_key, (Instant::now(), keys.clone()));
        }
        Ok(keys)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, KeyCache> {
        lock(&self.cache)
    }
}
