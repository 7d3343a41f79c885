//! One reconcile of one object: read, decide, write conditions, remove stale reports, emit events.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::kms::{KMSHealthSpec, KmsTarget};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use plan::kms::rollup::{
    self, ClockReading, ExpectedReporters, ReportFormat, Reports, RollupRules, RollupState,
};
use plan::kms::target::report_location;
use runtime::Key;
use runtime::events::EventRecorder;
use runtime::own_writes::{Freshness, OwnWrites};
use runtime::sync::lock;
use runtime::watch::Cache;
use runtime::write::{self, Writer};
use serde_json::Value;

use super::cluster_operator::ClusterOperatorWriter;
use super::deployed_keys::{self, DeployedKeys};
use super::expected;
use super::metrics::KmsMetrics;
use super::reports;
use super::start::Pods;
use super::status::StatusWriter;
use super::target::{ObjectRef, report_warning_threshold};
use super::target_resource::{TargetResource, UntypedObject};

/// Delay before checking again whether the watch has delivered the last own write.
const OWN_WRITE_POLL: Duration = Duration::from_millis(500);

/// Why a reconcile failed. The next one starts over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// A write could not be sent.
    #[error(transparent)]
    Write(write::Error),
    /// A write did not succeed.
    #[error("write failed: {0}")]
    NotWritten(String),
    /// An object could not be read.
    #[error("read failed: {0}")]
    Read(Box<kube::Error>),
    /// The deployed keys are unknown, so it is unknown which reports to expect.
    #[error("determining deployed plugins: {0}")]
    Deployed(#[from] deployed_keys::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Read(Box::new(error))
    }
}

impl From<write::Error> for Error {
    fn from(error: write::Error) -> Self {
        Self::Write(error)
    }
}

/// State shared by all reconciles.
pub(super) struct Aggregator {
    pub(super) client: Client,
    pub(super) rules: RollupRules,
    pub(super) deployed_keys: DeployedKeys,
    pub(super) pods: HashMap<KmsTarget, Pods>,
    pub(super) namespaces: HashMap<KmsTarget, String>,
    pub(super) cluster_operator: Option<ClusterOperatorWriter>,
    pub(super) events: EventRecorder,
    pub(super) metrics: KmsMetrics,
    pub(super) started: Instant,
    /// Rollup memory of each object. Valid only while this process is the leader.
    pub(super) memories: Mutex<HashMap<ObjectRef, RollupState>>,
    /// Objects for which a nearly-full event was emitted.
    pub(super) nearly_full: Mutex<HashSet<ObjectRef>>,
}

/// Objects of one kind, and the own writes to them.
pub(super) struct Objects<K: TargetResource> {
    pub(super) cache: Cache<UntypedObject<K>>,
    pub(super) own_writes: Arc<OwnWrites>,
}

impl Aggregator {
    /// Reconciles an object. Returns after what time at most to reconcile it again.
    pub(super) async fn reconcile<K: TargetResource>(
        &self,
        objects: &Objects<K>,
        writer: &Writer,
        object_ref: &ObjectRef,
    ) -> Result<Option<Duration>, Error> {
        let key = Key { namespace: String::new(), name: object_ref.name.clone() };
        let cached = objects.cache.get(&key);
        let object = match objects.own_writes.freshness(&key, cached.as_deref()) {
            Freshness::Current => cached,
            // Deciding on a cache that lacks the last own write would repeat the decision.
            Freshness::Behind => return Ok(Some(OWN_WRITE_POLL)),
            Freshness::TimedOut => {
                let api: Api<UntypedObject<K>> = Api::all(self.client.clone());
                objects.own_writes.forget(&key);
                api.get_opt(&object_ref.name).await?.map(Arc::new)
            }
        };
        let Some(object) = object else {
            self.memories().remove(object_ref);
            self.metrics.remove_object(object_ref);
            lock(&self.nearly_full).remove(object_ref);
            if let Some(cluster_operator) = &self.cluster_operator {
                cluster_operator.delete(&self.client, writer).await?;
            }
            return Ok(None);
        };
        let document = object.status_document();
        let reports = reports::parse(&document, report_location(object_ref.target));
        let expected = self.expected(&object, &reports).await?;
        let stored = reports::parse_conditions(&document);
        let now = ClockReading { monotonic: self.started.elapsed(), wall: Timestamp::now() };
        let memory = self.memories().get(object_ref).cloned().unwrap_or_default();
        let decision = rollup::decide(&self.rules, &reports, &expected, &stored, memory, now);
        self.memories().insert(object_ref.clone(), decision.state.clone());
        let typed = reports.valid.iter().filter(|one| one.format == ReportFormat::Typed).count();
        self.metrics.record_rollup(object_ref, typed, &decision.plugins);
        let status = StatusWriter {
            writer,
            events: &self.events,
            metrics: &self.metrics,
            own_writes: &objects.own_writes,
            object: &object,
            object_ref,
        };
        if self.becomes_nearly_full(object_ref, typed) {
            status.emit_nearly_full(typed);
        }
        let conditions = status.write_conditions(&stored, decision.conditions.as_ref(), now).await?;
        status.remove_reports(&decision.removals).await?;
        let cluster_operator_due = match &self.cluster_operator {
            Some(cluster_operator) => {
                cluster_operator.update(writer, object_ref.target, &object.spec, &conditions).await?
            }
            None => None,
        };
        let due = decision.requeue_at.map(|at| at.saturating_sub(self.started.elapsed()));
        // Deployed keys are not watched: check them every interval.
        Ok([due, cluster_operator_due, Some(self.rules.interval)].into_iter().flatten().min())
    }

    async fn expected<K: TargetResource>(
        &self,
        object: &UntypedObject<K>,
        reports: &Reports,
    ) -> Result<ExpectedReporters, Error> {
        let namespace = self.namespaces.get(&K::TARGET).map(String::as_str).unwrap_or_default();
        let servers = match K::TARGET {
            KmsTarget::KmsHealth => {
                // A missing or invalid spec is treated as empty.
                let spec: KMSHealthSpec = serde_json::from_value(object.spec.clone()).unwrap_or_default();
                return Ok(expected::from_spec(&spec, reports));
            }
            KmsTarget::KubeApiServer => expected::static_pods(&object.status),
            KmsTarget::OpenShiftApiServer | KmsTarget::Authentication => {
                let pods = self.pods.get(&K::TARGET).map(|pods| pods.all()).unwrap_or_default();
                expected::ready_pods(&pods, server_status::<K>(&object.status))
            }
        };
        Ok(expected::from_servers(servers, &self.deployed_keys, namespace).await?)
    }

    /// Reports whether an object just crossed the warning threshold. It warns again only after falling below it.
    fn becomes_nearly_full(&self, object_ref: &ObjectRef, reports: usize) -> bool {
        let mut nearly_full = lock(&self.nearly_full);
        if reports < report_warning_threshold(object_ref.target) {
            nearly_full.remove(object_ref);
            return false;
        }
        nearly_full.insert(object_ref.clone())
    }

    /// Drops the rollup memory of all objects.
    pub(super) fn reset_memories(&self) {
        self.memories().clear();
    }

    fn memories(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectRef, RollupState>> {
        lock(&self.memories)
    }
}

/// Returns the part of the status with the latest revision of the API server.
fn server_status<K: TargetResource>(status: &Value) -> &Value {
    match K::TARGET {
        KmsTarget::Authentication => &status["oauthAPIServer"],
        _ => status,
    }
}
