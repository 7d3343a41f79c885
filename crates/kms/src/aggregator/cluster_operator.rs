//! Rolls up the conditions of an operator resource into its ClusterOperator, for clusters where no other operator does.

use std::time::Duration;

use api::kms::KmsTarget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use plan::kms::union::{CONDITION_RULES, OperatorCondition, union_condition, unmanaged_condition};
use runtime::Key;
use runtime::watch::Cache;
use runtime::write::Writer;
use serde_json::{Value, json};

use super::reconcile::Error;
use super::reports;
use super::status::require_written;
use super::target::condition_inertia;
use super::target_resource::{ClusterOperator, UntypedObject};

/// Management state in which the conditions of an operator resource are not maintained.
const UNMANAGED: &str = "Unmanaged";

/// Writes one ClusterOperator.
pub(super) struct ClusterOperatorWriter {
    pub(super) name: String,
    pub(super) cache: Cache<UntypedObject<ClusterOperator>>,
}

impl ClusterOperatorWriter {
    /// Updates its conditions if they differ. Returns when to update again: a bad condition counts only after its inertia.
    pub(super) async fn update(
        &self,
        writer: &Writer,
        target: KmsTarget,
        spec: &Value,
        conditions: &[Condition],
    ) -> Result<Option<Duration>, Error> {
        let now = Timestamp::now();
        let live = self.cache.get(&Key { namespace: String::new(), name: self.name.clone() });
        let live = match live {
            Some(live) => live.as_ref().clone(),
            None => require_written(writer.create_cluster_object(&UntypedObject::new(&self.name)).await?)?,
        };
        let conditions: Vec<OperatorCondition> = conditions.iter().map(operator_condition).collect();
        let (mut desired, mut due) = (Vec::new(), None);
        for rule in CONDITION_RULES {
            let (condition, changes_at) = if spec["managementState"] == UNMANAGED {
                (unmanaged_condition(rule, now), None)
            } else {
                union_condition(rule, &conditions, &condition_inertia(target), now)
            };
            due = due.into_iter().chain(changes_at).min();
            desired.push(condition);
        }
        let stored: Vec<OperatorCondition> =
            reports::parse_conditions(&live.status_document()).iter().map(operator_condition).collect();
        for condition in &mut desired {
            let before = stored.iter().find(|one| one.type_ == condition.type_);
            if let Some(before) = before.filter(|before| before.status == condition.status) {
                condition.changed = before.changed;
            }
            condition.changed = Timestamp::from_second(condition.changed.as_second()).unwrap_or(now);
        }
        if desired.iter().any(|condition| !stored.contains(condition)) {
            let mut body = live.apply_identity();
            body["status"] = json!({ "conditions": desired.iter().map(condition_json).collect::<Vec<_>>() });
            require_written::<UntypedObject<ClusterOperator>>(
                writer.apply_cluster_status(&live.name_any(), &body).await?,
            )?;
        }
        Ok(due.map(|at| {
            Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_secs(1)
        }))
    }

    /// Deletes the ClusterOperator after its operator resource is gone. Reads it from the API server, because the cache may be stale.
    pub(super) async fn delete(&self, client: &Client, writer: &Writer) -> Result<(), Error> {
        let api: Api<UntypedObject<ClusterOperator>> = Api::all(client.clone());
        match api.get_opt(&self.name).await? {
            Some(live) => require_written(writer.delete_cluster_object(&live).await?).map(drop),
            None => Ok(()),
        }
    }
}

fn operator_condition(condition: &Condition) -> OperatorCondition {
    OperatorCondition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        changed: condition.last_transition_time.0,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

fn condition_json(condition: &OperatorCondition) -> Value {
    json!({
        "type": condition.type_,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.changed.to_string(),
    })
}
