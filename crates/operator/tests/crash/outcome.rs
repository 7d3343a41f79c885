//! What a run came to: the objects that are there at its end, and what was created, deleted and given to the sidecar.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::SeiNode;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use testbed::Error;
use testbed::cluster::control_plane::AuditedRequest;

use crate::ground::Ground;
use crate::mask::Mask;
use crate::workload::NODE;

/// Events of what is seen only when a probe falls into the moments in which a new pod serves and was not told to start.
const BY_CHANCE: [&str; 2] = ["SidecarReadinessLost", "SidecarReadinessRestored"];

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Masked objects, by kind and name.
    pub objects: BTreeMap<String, Value>,
    /// How often the sidecar's tasks of each type are in each state.
    pub tasks: BTreeMap<String, usize>,
    /// How often each object was created and deleted by the operator.
    pub changes: BTreeMap<String, usize>,
    /// How often the sidecar was given a task of each type.
    pub submissions: BTreeMap<String, usize>,
    /// Events, which are lost rather than sent twice.
    pub events: BTreeMap<String, usize>,
}

impl Outcome {
    /// Looks at everything that a run has left.
    pub async fn of(ground: &Ground<'_>) -> Result<Self, Error> {
        let mut outcome = Self::default();
        let mut all = Vec::new();
        all.extend(values::<SeiNode>(ground).await?);
        all.extend(values::<StatefulSet>(ground).await?);
        all.extend(values::<Pod>(ground).await?);
        all.extend(values::<Service>(ground).await?);
        all.extend(values::<ConfigMap>(ground).await?);
        all.extend(values::<NetworkPolicy>(ground).await?);
        all.extend(values::<PersistentVolumeClaim>(ground).await?);
        all.extend(values::<Job>(ground).await?);
        let mut mask = Mask::new(&ground.ns);
        for (name, object) in &all {
            mask.learn(name, object);
        }
        outcome.objects = all.iter().map(|(name, object)| (name.clone(), mask.object(object))).collect();
        for task in ground.sidecar(NODE).tasks() {
            *outcome
                .tasks
                .entry(format!("{} {:?} run {}", task.task_type, task.status, task.run))
                .or_default() += 1;
        }
        for given in given(ground) {
            *outcome.submissions.entry(given).or_default() += 1;
        }
        for change in ground.writes()?.iter().filter_map(change) {
            *outcome.changes.entry(mask.text(&change)).or_default() += 1;
        }
        for (reason, _) in ground.events(NODE).await? {
            *outcome.events.entry(reason).or_default() += 1;
        }
        Ok(outcome)
    }

    /// What differs from the run that nothing happened to; empty when nothing does.
    pub fn differences(&self, undisturbed: &Self) -> String {
        let mut found = String::new();
        let names: BTreeSet<&String> = self.objects.keys().chain(undisturbed.objects.keys()).collect();
        for name in names {
            let of = |outcome: &Self| outcome.objects.get(name).cloned().unwrap_or_default();
            differ(&of(undisturbed), &of(self), name, &mut found);
        }
        let counts = [
            ("tasks of the sidecar", &self.tasks, &undisturbed.tasks),
            ("created and deleted", &self.changes, &undisturbed.changes),
            ("given to the sidecar", &self.submissions, &undisturbed.submissions),
        ];
        for (what, ours, theirs) in counts {
            if ours != theirs {
                let _ = writeln!(found, "{what}: {ours:?} instead of {theirs:?}");
            }
        }
        for (event, count) in self.events.iter().filter(|(event, _)| !BY_CHANCE.contains(&event.as_str())) {
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

/// Types of the tasks that were given to the node's sidecar, taken or not, in their order.
pub fn given(ground: &Ground<'_>) -> Vec<String> {
    let sidecar = ground.sidecar(NODE);
    let to_it = ground.sidecars.journal().requests(|one| one.node == *sidecar.name() && one.is_submission());
    to_it.into_iter().map(|one| one.task_type.unwrap_or_default()).collect()
}

/// What a write made of the world, if it created or deleted something. Whether the operator heard of it does not matter.
/// Objects that are created have no name in the audit log.
fn change(write: &AuditedRequest) -> Option<String> {
    let done = match (write.verb.as_str(), write.code) {
        ("create" | "patch", 201) => "create",
        ("delete", 200..300) => "delete",
        _ => return None,
    };
    (write.resource != "events").then(|| format!("{done} {} {}", write.resource, write.name))
}

async fn values<K>(ground: &Ground<'_>) -> Result<Vec<(String, Value)>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let all = ground.api::<K>().list(&ListParams::default()).await?;
    let value = |object: &K| {
        let value = serde_json::to_value(object).map_err(|error| Error::Refused(error.to_string()))?;
        Ok((format!("{} {}", K::kind(&()), object.name_any()), value))
    };
    all.iter().map(value).collect()
}

/// Names the leaves in which two values differ.
fn differ(wanted: &Value, seen: &Value, path: &str, found: &mut String) {
    match (wanted, seen) {
        (Value::Object(wanted), Value::Object(seen)) => {
            let names: BTreeSet<&String> = wanted.keys().chain(seen.keys()).collect();
            for name in names {
                let of =
                    |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                differ(&of(wanted), &of(seen), &format!("{path}.{name}"), found);
            }
        }
        (Value::Array(wanted), Value::Array(seen)) if wanted.len() == seen.len() => {
            for (index, (wanted, seen)) in wanted.iter().zip(seen).enumerate() {
                differ(wanted, seen, &format!("{path}[{index}]"), found);
            }
        }
        _ if wanted == seen => {}
        _ => {
            let _ = writeln!(found, "{path}: {seen} instead of {wanted}");
        }
    }
}
