//! What follows from a look: conditions are written if they differ, entries that nobody needs are removed, and people are told.

use api::note::{Note, Tone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use plan::kms::removal;
use plan::kms::rollup::{self, Now, Removal, TYPES, Verdict};
use runtime::events::Events;
use runtime::own_writes::OwnWrites;
use runtime::write::Writer;
use serde_json::{Value, json};

use super::cluster_operator::made;
use super::metrics::KmsMetrics;
use super::pass::Error;
use super::resource::{Raw, Reported};
use super::target::{Place, Target};

/// One object that was looked at, and the means to act on it.
pub(super) struct Act<'a, K: Reported> {
    pub(super) writer: &'a Writer,
    pub(super) events: &'a Events,
    pub(super) metrics: &'a KmsMetrics,
    pub(super) own: &'a OwnWrites,
    pub(super) object: &'a Raw<K>,
    pub(super) place: &'a Place,
}

impl<K: Reported> Act<'_, K> {
    /// Writes our conditions, if they differ from what stands; returns all conditions as they stand then.
    pub(super) async fn write(
        &self,
        stored: &[Condition],
        verdict: Option<&Verdict>,
        now: Now,
    ) -> Result<Vec<Condition>, Error> {
        let Self { object, place, .. } = self;
        let generation = object.metadata.generation.unwrap_or(0);
        let wall = Time(Timestamp::from_second(now.wall.as_second()).unwrap_or(now.wall));
        let ours: Vec<Condition> =
            stored.iter().filter(|one| TYPES.contains(&one.type_.as_str())).cloned().collect();
        let with_generation = place.target == Target::KmsHealth;
        // Operators' conditions have no generation, and would differ by it for ever.
        let known: Vec<Condition> = if with_generation {
            ours.clone()
        } else {
            let dated = |one: &Condition| Condition { observed_generation: Some(generation), ..one.clone() };
            ours.iter().map(dated).collect()
        };
        let (wanted, moved) = rollup::record(verdict, &known, generation, &wall);
        let seen = !with_generation || object.status["observedGeneration"].as_i64() == Some(generation);
        let mut all: Vec<Condition> =
            stored.iter().filter(|one| !TYPES.contains(&one.type_.as_str())).cloned().collect();
        all.extend(wanted.iter().cloned());
        if wanted == known && seen {
            return Ok(all);
        }
        let mut body = object.head();
        let conditions: Vec<Value> = wanted.iter().map(|one| written(one, with_generation)).collect();
        body["status"] = json!({ "conditions": conditions });
        if with_generation {
            body["status"]["observedGeneration"] = json!(generation);
        }
        let answer: Raw<K> = made(self.writer.apply_status_of_cluster(&place.name, &body).await?)?;
        self.own.wrote(&answer);
        self.tell(&wanted, &moved);
        Ok(all)
    }

    /// Tells people of conditions whose status changed.
    fn tell(&self, wanted: &[Condition], moved: &[&str]) {
        for name in moved {
            let note = match wanted.iter().find(|one| one.type_ == *name) {
                Some(condition) => {
                    let good = if *name == "KMSPluginsAvailable" { "True" } else { "False" };
                    let calm = condition.status == good || *name == "KMSRemoteKeyConverged";
                    Note {
                        tone: if calm || *name == "KMSPluginsProgressing" {
                            Tone::Normal
                        } else {
                            Tone::Warning
                        },
                        reason: condition.reason.clone().into(),
                        action: "Rollup",
                        message: format!("{name} is {}: {}", condition.status, condition.message),
                    }
                }
                None => Note {
                    tone: Tone::Normal,
                    reason: "KMSNotDeployed".into(),
                    action: "Rollup",
                    message: format!("{name} is taken away: no KMS plugin is deployed"),
                },
            };
            tracing::info!(
                object = %self.place,
                condition = name,
                reason = %note.reason,
                "a condition changed"
            );
            self.events.send(self.object, &[note]);
        }
    }

    /// Tells people that an object is nearly full of reports.
    pub(super) fn crowded(&self, reports: usize) {
        let most = self.place.target.most_reports();
        let message =
            format!("{reports} of at most {most} reports stand here: a node beyond them cannot report");
        tracing::warn!(object = %self.place, reports, most, "{message}");
        let note =
            Note { tone: Tone::Warning, reason: "KMSReportsNearlyFull".into(), action: "Rollup", message };
        self.events.send(self.object, &[note]);
    }

    /// Removes entries. What was written anew in the meantime makes the patch fail, and stays.
    pub(super) async fn remove(&self, removals: &[Removal]) -> Result<(), Error> {
        let Self { object, place, .. } = self;
        let Some(patch) = removal::patch(&object.document(), place.target.places(), removals) else {
            return Ok(());
        };
        let answer: Raw<K> = made(self.writer.patch_status_of_cluster(&place.name, &patch).await?)?;
        self.own.wrote(&answer);
        self.metrics.removed(place, removals.len());
        let names: Vec<String> = removals
            .iter()
            .map(|removal| match removal {
                Removal::Condition { node } => format!("the condition of node {node}"),
                Removal::Typed { node, key, .. } => format!("key {key} of node {node}"),
            })
            .collect();
        let message = format!("removed, since nobody writes them any more: {}", names.join(", "));
        tracing::info!(object = %place, entries = removals.len(), "{message}");
        let note =
            Note { tone: Tone::Normal, reason: "KMSReportsRemoved".into(), action: "Cleanup", message };
        self.events.send(self.object, &[note]);
        Ok(())
    }
}

fn written(condition: &Condition, with_generation: bool) -> Value {
    let mut written = json!({
        "type": condition.type_,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    });
    if with_generation {
        written["observedGeneration"] = json!(condition.observed_generation);
    }
    written
}
