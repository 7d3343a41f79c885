//! The outcome of a run: the objects at its end, and what was created, deleted and submitted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::SeiNode;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use testbed::Error;
use testbed::cluster::control_plane::AuditedRequest;

use crate::fixture::Fixture;
use crate::mask::Mask;
use crate::workload::NODE;

/// Events that depend on timing: they are emitted only if a probe hits a new pod before it is marked ready.
const TIMING_DEPENDENT: [&str; 2] = ["SidecarReadinessLost", "SidecarReadinessRestored"];

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Masked objects, by kind and name.
    pub objects: BTreeMap<String, Value>,
    /// Number of sidecar tasks by type and state.
    pub tasks: BTreeMap<String, usize>,
    /// Number of creations and deletions by the operator, by object.
    pub changes: BTreeMap<String, usize>,
    /// Number of task submissions by type.
    pub submissions: BTreeMap<String, usize>,
    /// Number of events by reason. A crash may lose an event, but never repeats one.
    pub events: BTreeMap<String, usize>,
}

impl Outcome {
    /// Collects the outcome of a run.
    pub async fn collect(fixture: &Fixture<'_>) -> Result<Self, Error> {
        let mut outcome = Self::default();
        let mut objects = Vec::new();
        objects.extend(list::<SeiNode>(fixture).await?);
        objects.extend(list::<StatefulSet>(fixture).await?);
        objects.extend(list::<Pod>(fixture).await?);
        objects.extend(list::<Service>(fixture).await?);
        objects.extend(list::<ConfigMap>(fixture).await?);
        objects.extend(list::<NetworkPolicy>(fixture).await?);
        objects.extend(list::<PodDisruptionBudget>(fixture).await?);
        objects.extend(list::<PersistentVolumeClaim>(fixture).await?);
        objects.extend(list::<Job>(fixture).await?);
        let mut mask = Mask::new(&fixture.ns);
        for (name, object) in &objects {
            mask.add_object(name, object);
        }
        outcome.objects =
            objects.iter().map(|(name, object)| (name.clone(), mask.mask_object(object))).collect();
        for task in fixture.sidecar(NODE).tasks() {
            *outcome
                .tasks
                .entry(format!("{} {:?} run {}", task.task_type, task.status, task.run))
                .or_default() += 1;
        }
        for task_type in submitted_tasks(fixture) {
            *outcome.submissions.entry(task_type).or_default() += 1;
        }
        for change in fixture.writes()?.iter().filter_map(change) {
            *outcome.changes.entry(mask.mask_text(&change)).or_default() += 1;
        }
        for (reason, _) in fixture.events(NODE).await? {
            *outcome.events.entry(reason).or_default() += 1;
        }
        Ok(outcome)
    }

    /// Describes the differences from an undisturbed run; empty if there are none.
    pub fn differences(&self, undisturbed: &Self) -> String {
        let mut found = String::new();
        let names: BTreeSet<&String> = self.objects.keys().chain(undisturbed.objects.keys()).collect();
        for name in names {
            let object = |outcome: &Self| outcome.objects.get(name).cloned().unwrap_or_default();
            diff(&object(undisturbed), &object(self), name, &mut found);
        }
        let counts = [
            ("sidecar tasks", &self.tasks, &undisturbed.tasks),
            ("creations and deletions", &self.changes, &undisturbed.changes),
            ("submissions", &self.submissions, &undisturbed.submissions),
        ];
        for (what, ours, theirs) in counts {
            if ours != theirs {
                let _ = writeln!(found, "{what}: {ours:?} instead of {theirs:?}");
            }
        }
        for (event, count) in
            self.events.iter().filter(|(event, _)| !TIMING_DEPENDENT.contains(&event.as_str()))
        {
            if *count > undisturbed.events.get(event).copied().unwrap_or_default() {
                let _ = writeln!(
                    found,
                    "event {event}: {count} times instead of {:?}",
                    undisturbed.events.get(event)
                );
            }
        }
        found
    }
}

/// Returns the types of the tasks submitted to the node's sidecar, accepted or not, in order.
pub fn submitted_tasks(fixture: &Fixture<'_>) -> Vec<String> {
    let sidecar = fixture.sidecar(NODE);
    let journal = fixture.sidecars.journal();
    let requests = journal.requests(|request| request.node == *sidecar.name() && request.is_submission());
    requests.into_iter().map(|request| request.task_type.unwrap_or_default()).collect()
}

/// Describes a write that created or deleted an object, whether or not the operator received the response. Created objects
/// have no name in the audit log.
fn change(write: &AuditedRequest) -> Option<String> {
    let action = match (write.verb.as_str(), write.code) {
        ("create" | "patch", 201) => "create",
        ("delete", 200..300) => "delete",
        _ => return None,
    };
    (write.resource != "events").then(|| format!("{action} {} {}", write.resource, write.name))
}

async fn list<K>(fixture: &Fixture<'_>) -> Result<Vec<(String, Value)>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let all = fixture.api::<K>().list(&ListParams::default()).await?;
    let value = |object: &K| {
        let value = serde_json::to_value(object).map_err(|error| Error::Other(error.to_string()))?;
        Ok((format!("{} {}", K::kind(&()), object.name_any()), value))
    };
    all.iter().map(value).collect()
}

/// Lists the leaves in which two values differ.
fn diff(expected: &Value, actual: &Value, path: &str, found: &mut String) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let names: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
            for name in names {
                let field =
                    |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                diff(&field(expected), &field(actual), &format!("{path}.{name}"), found);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                diff(expected, actual, &format!("{path}[{index}]"), found);
            }
        }
        _ if expected == actual => {}
        _ => {
            let _ = writeln!(found, "{path}: {actual} instead of {expected}");
        }
    }
}
