//! One reconcile of one object: read, decide, write conditions, remove stale reports, emit events.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use plan::kms::rollup::{self, ClockReading, ReportFormat, RollupRules, RollupState};
use plan::kms::target::report_location;
use runtime::Key;
use runtime::events::EventRecorder;
use runtime::own_writes::{Freshness, OwnWrites};
use runtime::sync::lock;
use runtime::watch::Cache;
use runtime::write::{self, Writer};

use super::cluster_operator::ClusterOperatorWriter;
use super::inputs::Sources;
use super::metrics::KmsMetrics;
use super::reports;
use super::status::StatusWriter;
use super::target::{ObjectRef, report_warning_threshold};
use super::target_resource::{TargetResource, UntypedObject};

/// Delay before checking again whether the watch has delivered the last own write.
const OWN_WRITE_POLL: Duration = Duration::from_millis(500);

/// Number of reports from which changes of an object are coalesced.
const CROWD: usize = 64;

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
    /// The ClusterOperator was not listed yet.
    #[error("ClusterOperator {0} cannot be watched")]
    NotSynced(String),
    /// An object could not be read.
    #[error("read failed: {0}")]
    Read(Box<kube::Error>),
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

/// The objects with so many reports that a reconcile per report would cost too much.
#[derive(Default)]
pub(super) struct Crowded {
    objects: Mutex<HashSet<ObjectRef>>,
}

impl Crowded {
    fn set(&self, object: &ObjectRef, is_crowded: bool) {
        let mut objects = lock(&self.objects);
        if !is_crowded {
            objects.remove(object);
        } else if !objects.contains(object) {
            objects.insert(object.clone());
        }
    }

    pub(super) fn contains(&self, object: &ObjectRef) -> bool {
        lock(&self.objects).contains(object)
    }
}

/// State shared by all reconciles.
pub(super) struct Aggregator {
    pub(super) client: Client,
    pub(super) rules: RollupRules,
    pub(super) sources: Sources,
    pub(super) cluster_operator: Option<ClusterOperatorWriter>,
    pub(super) events: EventRecorder,
    pub(super) metrics: KmsMetrics,
    pub(super) crowded: Arc<Crowded>,
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
            self.crowded.set(object_ref, false);
            if let Some(cluster_operator) = self.cluster_operator_of(object_ref) {
                cluster_operator.delete(&self.client, writer).await?;
            }
            return Ok(None);
        };
        let document = object.status_document();
        let mut reports = reports::parse(&document, report_location(object_ref.target));
        let typed = reports.valid.iter().filter(|one| one.format == ReportFormat::Typed).count();
        let own_objects = self.sources.report_objects(object_ref);
        for own in &own_objects {
            reports::parse_object(&own.name_any(), &own.spec, &mut reports);
        }
        let inputs = self.sources.of_object(object_ref, &object.spec, &object.status);
        let stored = reports::parse_conditions(&document);
        let now = ClockReading { monotonic: self.started.elapsed(), wall: Timestamp::now() };
        let memory = self.memories().get(object_ref).cloned().unwrap_or_default();
        let decision = rollup::decide(&self.rules, &reports, &inputs, &stored, memory, now);
        self.memories().insert(object_ref.clone(), decision.state.clone());
        self.metrics.record_rollup(object_ref, typed, &decision);
        self.crowded.set(object_ref, reports.valid.len() > CROWD);
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
        // A write that fails does not prevent the others.
        let written = status.write_conditions(&stored, decision.conditions.as_ref(), now).await;
        let removed = status.remove_reports(&decision.removals, &own_objects).await;
        let rolled_up = match (self.cluster_operator_of(object_ref), &written) {
            (Some(cluster_operator), Ok(conditions)) => {
                cluster_operator.update(writer, object_ref.target, &object.spec, conditions).await
            }
            _ => Ok(None),
        };
        written?;
        removed?;
        let cluster_operator_due = rolled_up?;
        let due = decision.requeue_at.map(|at| at.saturating_sub(self.started.elapsed()));
        // An input that becomes unavailable causes no event.
        Ok([due, cluster_operator_due, Some(self.rules.interval)].into_iter().flatten().min())
    }

    /// Returns the writer of the ClusterOperator if it belongs to this object.
    fn cluster_operator_of(&self, object: &ObjectRef) -> Option<&ClusterOperatorWriter> {
        self.cluster_operator.as_ref().filter(|cluster_operator| cluster_operator.object == *object)
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
