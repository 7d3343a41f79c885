//! Which keys an API server has: read from the secret of its encryption configuration. Secrets are read by name and only when they
//! are needed; of what they hold only the numbers of keys are kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::kms::ExpectedKey;
use api::names::kms::encryption_config::CONFIG;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use plan::kms::providers;

/// A secret of a revision does not change, as long as nobody does it by hand.
const REVISION_KEPT: Duration = Duration::from_secs(300);

/// Why it is not known which keys are deployed. Nothing is decided then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// The secret cannot be read.
    #[error("secret {namespace}/{name} cannot be read: {source}")]
    Read {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What was said.
        source: Box<kube::Error>,
    },
    /// What it holds is no encryption configuration.
    #[error("secret {namespace}/{name}: {source}")]
    Malformed {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong.
        source: providers::Malformed,
    },
}

/// Keys that were read, and when, by namespace and name of their secret.
type Known = HashMap<(String, String), (Instant, Vec<ExpectedKey>)>;

/// The keys of deployed configurations.
pub(super) struct Deployed {
    client: Client,
    secret: String,
    /// How long what has no revision is kept.
    kept: Duration,
    known: Mutex<Known>,
}

impl Deployed {
    pub(super) fn new(client: Client, secret: &str, kept: Duration) -> Self {
        Self { client, secret: secret.into(), kept, known: Mutex::default() }
    }

    /// The keys of a revision; of what has none, where revisions are not known. None where there is no such secret: nothing is
    /// encrypted then.
    pub(super) async fn keys(
        &self,
        namespace: &str,
        revision: Option<i64>,
    ) -> Result<Vec<ExpectedKey>, Error> {
        let (name, kept) = match revision {
            Some(revision) => (format!("{}-{revision}", self.secret), REVISION_KEPT),
            None => (self.secret.clone(), self.kept),
        };
        let place = (namespace.to_owned(), name.clone());
        if let Some((read, keys)) = self.known().get(&place)
            && read.elapsed() < kept
        {
            return Ok(keys.clone());
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let namespace = || namespace.to_owned();
        let read = api.get_opt(&name).await;
        let secret = read.map_err(|error| Error::Read {
            namespace: namespace(),
            name: name.clone(),
            source: Box::new(error),
        })?;
        let there = secret.is_some();
        let config = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(CONFIG));
        let keys = match config {
            None => Vec::new(),
            Some(config) => providers::read(&config.0)
                .map_err(|source| Error::Malformed { namespace: namespace(), name, source })?
                .into_iter()
                .map(|provider| ExpectedKey { key_id: provider.key_id.to_string(), role: provider.role })
                .collect(),
        };
        let mut known = self.known();
        known.retain(|_, (read, _)| read.elapsed() < REVISION_KEPT.max(kept));
        // One that is not there may come at any moment.
        if there {
            known.insert(place, (Instant::now(), keys.clone()));
        }
        Ok(keys)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
