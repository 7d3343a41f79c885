//! One look at one object: read, decide, write what differs, remove what nobody needs, tell.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::kms::KMSHealthSpec;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use plan::kms::rollup::{self, Expected, Form, Memory, Now, Reports, Rules};
use runtime::Key;
use runtime::events::Events;
use runtime::own_writes::{OwnWrites, Sight};
use runtime::watch::Cache;
use runtime::write::{self, Writer};
use serde_json::Value;

use super::act::Act;
use super::cluster_operator::Shown;
use super::deployed::{self, Deployed};
use super::expected;
use super::metrics::KmsMetrics;
use super::reports;
use super::resource::{Raw, Reported};
use super::start::Pods;
use super::target::{Place, Target};

/// How soon it is looked whether a watch has seen our own write.
const ECHO: Duration = Duration::from_millis(500);

/// Why a look ended before all was written. The next one begins anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// Nothing was sent.
    #[error(transparent)]
    Write(write::Error),
    /// What was sent was not taken.
    #[error("not written: {0}")]
    NotWritten(String),
    /// The API server could not be asked.
    #[error("asking the API server: {0}")]
    Read(Box<kube::Error>),
    /// It is not known who is expected to report.
    #[error("it is not known which plugins are deployed: {0}")]
    Deployed(#[from] deployed::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Read(Box::new(error))
    }
}

/// What all looks share.
pub(super) struct Aggregator {
    pub(super) client: Client,
    pub(super) rules: Rules,
    pub(super) deployed: Deployed,
    pub(super) pods: HashMap<Target, Pods>,
    pub(super) namespaces: HashMap<Target, String>,
    pub(super) shown: Option<Shown>,
    pub(super) events: Events,
    pub(super) metrics: KmsMetrics,
    pub(super) begin: Instant,
    /// What is remembered of each object, as long as this process leads.
    pub(super) memories: Mutex<HashMap<Place, Memory>>,
    /// Objects of which it was told that they are nearly full of reports.
    pub(super) crowded: Mutex<HashSet<Place>>,
}

/// Objects of one kind, and what we wrote to them.
pub(super) struct Objects<K: Reported> {
    pub(super) cache: Cache<Raw<K>>,
    pub(super) own: Arc<OwnWrites>,
}

impl Aggregator {
    /// Looks at an object; tells when to look again at the latest.
    pub(super) async fn look<K: Reported>(
        &self,
        objects: &Objects<K>,
        writer: &Writer,
        place: &Place,
    ) -> Result<Option<Duration>, Error> {
        let key = Key { namespace: String::new(), name: place.name.clone() };
        let cached = objects.cache.get(&key);
        let object = match objects.own.sight(&key, cached.as_deref()) {
            Sight::Current => cached,
            // A decision on a view that lacks our last write would be made twice.
            Sight::Behind => return Ok(Some(ECHO)),
            Sight::Lost => {
                let api: Api<Raw<K>> = Api::all(self.client.clone());
                objects.own.forget(&key);
                api.get_opt(&place.name).await?.map(Arc::new)
            }
        };
        let Some(object) = object else {
            self.memories().remove(place);
            self.metrics.forget(place);
            self.crowded.lock().unwrap_or_else(PoisonError::into_inner).remove(place);
            if let Some(shown) = &self.shown {
                shown.gone(&self.client, writer).await?;
            }
            return Ok(None);
        };
        let document = object.document();
        let reports = reports::read(&document, place.target.places());
        let expected = self.expected(&object, &reports).await?;
        let stored = reports::conditions(&document);
        let now = Now { steady: self.begin.elapsed(), wall: Timestamp::now() };
        let memory = self.memories().get(place).cloned().unwrap_or_default();
        let made = rollup::decide(&self.rules, &reports, &expected, &stored, memory, now);
        self.memories().insert(place.clone(), made.memory.clone());
        let typed = reports.readable.iter().filter(|one| one.form == Form::Typed).count();
        self.metrics.looked(place, typed, &made.subjects);
        let act = Act {
            writer,
            events: &self.events,
            metrics: &self.metrics,
            own: &objects.own,
            object: &object,
            place,
        };
        if self.gets_crowded(place, typed) {
            act.crowded(typed);
        }
        let conditions = act.write(&stored, made.verdict.as_ref(), now).await?;
        act.remove(&made.removals).await?;
        let shown = match &self.shown {
            Some(shown) => shown.show(writer, place.target, &object.spec, &conditions).await?,
            None => None,
        };
        let due = made.look_at.map(|at| at.saturating_sub(self.begin.elapsed()));
        // What is deployed may change without a word.
        Ok([due, shown, Some(self.rules.interval)].into_iter().flatten().min())
    }

    async fn expected<K: Reported>(&self, object: &Raw<K>, reports: &Reports) -> Result<Expected, Error> {
        let namespace = self.namespaces.get(&K::TARGET).map(String::as_str).unwrap_or_default();
        let servers = match K::TARGET {
            Target::KmsHealth => {
                // What is not there, or cannot be read, is left open.
                let spec: KMSHealthSpec = serde_json::from_value(object.spec.clone()).unwrap_or_default();
                return Ok(expected::of_spec(&spec, reports));
            }
            Target::KubeApiServer => expected::static_pods(&object.status),
            Target::OpenShiftApiServer | Target::Authentication => {
                let pods = self.pods.get(&K::TARGET).map(|pods| pods.all()).unwrap_or_default();
                expected::ready_pods(&pods, latest_of::<K>(&object.status))
            }
        };
        Ok(expected::of_servers(servers, &self.deployed, namespace).await?)
    }

    /// Whether it has to be told that an object is nearly full: once, and once more after it was not.
    fn gets_crowded(&self, place: &Place, reports: usize) -> bool {
        let mut crowded = self.crowded.lock().unwrap_or_else(PoisonError::into_inner);
        if reports < place.target.many_reports() {
            crowded.remove(place);
            return false;
        }
        crowded.insert(place.clone())
    }

    /// Forgets what was remembered.
    pub(super) fn forget(&self) {
        self.memories().clear();
    }

    fn memories(&self) -> std::sync::MutexGuard<'_, HashMap<Place, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an operator says which revision of its API server is the latest.
fn latest_of<K: Reported>(status: &Value) -> &Value {
    match K::TARGET {
        Target::Authentication => &status["oauthAPIServer"],
        _ => status,
    }
}
