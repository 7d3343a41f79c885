//! Writes the rollup to an object: conditions, removed reports, events.

use api::event::{EventRecord, EventType};
use api::kms::KmsTarget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use plan::kms::removal;
use plan::kms::rollup::{self, CONDITION_TYPES, ClockReading, KmsConditions, ReportRemoval};
use plan::kms::target::report_location;
use runtime::events::EventRecorder;
use runtime::own_writes::OwnWrites;
use runtime::write::{WriteOutcome, Writer};
use serde_json::{Value, json};

use super::metrics::KmsMetrics;
use super::reconcile::Error;
use super::target::{ObjectRef, max_reports};
use super::target_resource::{TargetResource, UntypedObject};

/// Returns the written object; an object that was already in sync is an error, because callers write only differences.
pub(super) fn require_written<K>(outcome: WriteOutcome<K>) -> Result<K, Error> {
    let written = outcome.into_result().map_err(Error::NotWritten)?;
    written.ok_or_else(|| Error::NotWritten("nothing to write".into()))
}

/// Writes the status of one object.
pub(super) struct StatusWriter<'a, K: TargetResource> {
    pub(super) writer: &'a Writer,
    pub(super) events: &'a EventRecorder,
    pub(super) metrics: &'a KmsMetrics,
    pub(super) own_writes: &'a OwnWrites,
    pub(super) object: &'a UntypedObject<K>,
    pub(super) object_ref: &'a ObjectRef,
}

impl<K: TargetResource> StatusWriter<'_, K> {
    /// Applies the aggregator's conditions if they differ from the stored ones. Returns all conditions of the object after that.
    pub(super) async fn write_conditions(
        &self,
        stored: &[Condition],
        conditions: Option<&KmsConditions>,
        now: ClockReading,
    ) -> Result<Vec<Condition>, Error> {
        let Self { object, object_ref, .. } = self;
        let generation = object.metadata.generation.unwrap_or(0);
        let wall = Time(Timestamp::from_second(now.wall.as_second()).unwrap_or(now.wall));
        let own: Vec<Condition> =
            stored.iter().filter(|one| CONDITION_TYPES.contains(&one.type_.as_str())).cloned().collect();
        let with_generation = object_ref.target == KmsTarget::KmsHealth;
        // Conditions of operator resources have no observedGeneration and would never be in sync.
        let current: Vec<Condition> = if with_generation {
            own.clone()
        } else {
            let observed =
                |one: &Condition| Condition { observed_generation: Some(generation), ..one.clone() };
            own.iter().map(observed).collect()
        };
        let (desired, changed) = rollup::update_conditions(conditions, &current, generation, &wall);
        let generation_observed =
            !with_generation || object.status["observedGeneration"].as_i64() == Some(generation);
        let mut all: Vec<Condition> =
            stored.iter().filter(|one| !CONDITION_TYPES.contains(&one.type_.as_str())).cloned().collect();
        all.extend(desired.iter().cloned());
        if desired == current && generation_observed {
            return Ok(all);
        }
        let mut body = object.apply_identity();
        let conditions: Vec<Value> = desired.iter().map(|one| condition_json(one, with_generation)).collect();
        body["status"] = json!({ "conditions": conditions });
        if with_generation {
            body["status"]["observedGeneration"] = json!(generation);
        }
        let written: UntypedObject<K> =
            require_written(self.writer.apply_cluster_status(&object_ref.name, &body).await?)?;
        self.own_writes.record(&written);
        self.emit_changes(&desired, &changed);
        Ok(all)
    }

    /// Emits an event for each condition whose status changed.
    fn emit_changes(&self, desired: &[Condition], changed: &[&str]) {
        for name in changed {
            let note = match desired.iter().find(|one| one.type_ == *name) {
                Some(condition) => {
                    let good = if *name == "KMSPluginsAvailable" { "True" } else { "False" };
                    let is_normal = condition.status == good
                        || *name == "KMSRemoteKeyConverged"
                        || *name == "KMSPluginsProgressing";
                    EventRecord {
                        event_type: if is_normal { EventType::Normal } else { EventType::Warning },
                        reason: condition.reason.clone().into(),
                        action: "Rollup",
                        message: format!("{name} is {}: {}", condition.status, condition.message),
                    }
                }
                None => EventRecord {
                    event_type: EventType::Normal,
                    reason: "KMSNotDeployed".into(),
                    action: "Rollup",
                    message: format!("{name} removed: no KMS plugin is deployed"),
                },
            };
            tracing::info!(object = %self.object_ref, condition = name, reason = %note.reason, "condition changed");
            self.events.publish(self.object, &[note]);
        }
    }

    /// Emits an event that an object is nearly full of reports.
    pub(super) fn emit_nearly_full(&self, reports: usize) {
        let limit = max_reports(self.object_ref.target);
        tracing::warn!(object = %self.object_ref, reports, limit, "object nearly full of KMS reports");
        let message =
            format!("{reports} of at most {limit} reports: reports of further nodes will be rejected");
        let note = EventRecord {
            event_type: EventType::Warning,
            reason: "KMSReportsNearlyFull".into(),
            action: "Rollup",
            message,
        };
        self.events.publish(self.object, &[note]);
    }

    /// Removes reports with a JSON patch that fails if one of them was rewritten since it was read.
    pub(super) async fn remove_reports(&self, removals: &[ReportRemoval]) -> Result<(), Error> {
        let Self { object, object_ref, .. } = self;
        let paths = report_location(object_ref.target);
        let Some(patch) = removal::build_patch(&object.status_document(), paths, removals) else {
            return Ok(());
        };
        let written: UntypedObject<K> =
            require_written(self.writer.patch_cluster_status(&object_ref.name, &patch).await?)?;
        self.own_writes.record(&written);
        self.metrics.record_removed(object_ref, removals.len());
        let removed: Vec<String> = removals
            .iter()
            .map(|removal| match removal {
                ReportRemoval::Condition { node } => format!("condition of node {node}"),
                ReportRemoval::Typed { node, key, .. } => format!("key {key} of node {node}"),
            })
            .collect();
        let removed = removed.join(", ");
        tracing::info!(object = %object_ref, entries = removals.len(), removed, "removed stale reports");
        let message = format!("removed stale reports of unexpected nodes or keys: {removed}");
        let note = EventRecord {
            event_type: EventType::Normal,
            reason: "KMSReportsRemoved".into(),
            action: "Cleanup",
            message,
        };
        self.events.publish(self.object, &[note]);
        Ok(())
    }
}

fn condition_json(condition: &Condition, with_generation: bool) -> Value {
    let mut value = json!({
        "type": condition.type_,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    });
    if with_generation {
        value["observedGeneration"] = json!(condition.observed_generation);
    }
    value
}
