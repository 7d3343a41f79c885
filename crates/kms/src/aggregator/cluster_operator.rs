//! The operator's conditions on its ClusterOperator, where nobody else puts them there.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use plan::kms::union::{OperatorCondition, SLOTS, union, unmanaged};
use runtime::watch::Cache;
use runtime::write::{Outcome, Writer};
use runtime::{Key, write};
use serde_json::{Value, json};

use super::pass::Error;
use super::reports;
use super::resource::{ClusterOperator, Raw};
use super::target::Target;

/// Managed states in which an operator's status says nothing.
const UNMANAGED: &str = "Unmanaged";

/// The ClusterOperator that an operator's conditions are put on.
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) cache: Cache<Raw<ClusterOperator>>,
}

impl Shown {
    /// Puts conditions on it, if that changes anything. Tells when to look again, since what is bad counts only after a while.
    pub(super) async fn show(
        &self,
        writer: &Writer,
        target: Target,
        spec: &Value,
        conditions: &[Condition],
    ) -> Result<Option<Duration>, Error> {
        let now = Timestamp::now();
        let live = self.cache.get(&Key { namespace: String::new(), name: self.name.clone() });
        let live = match live {
            Some(live) => live.as_ref().clone(),
            None => made(writer.create_of_cluster(&Raw::named(&self.name)).await?)?,
        };
        let parts: Vec<OperatorCondition> = conditions.iter().map(part).collect();
        let (mut wanted, mut again) = (Vec::new(), None);
        for slot in SLOTS {
            let (condition, turns) = if spec["managementState"] == UNMANAGED {
                (unmanaged(slot, now), None)
            } else {
                union(slot, &parts, &target.inertia(), now)
            };
            again = again.into_iter().chain(turns).min();
            wanted.push(condition);
        }
        let stored: Vec<OperatorCondition> = reports::conditions(&live.document()).iter().map(part).collect();
        for condition in &mut wanted {
            let before = stored.iter().find(|one| one.type_ == condition.type_);
            if let Some(before) = before.filter(|before| before.status == condition.status) {
                condition.changed = before.changed;
            }
            condition.changed = Timestamp::from_second(condition.changed.as_second()).unwrap_or(now);
        }
        if wanted.iter().any(|condition| !stored.contains(condition)) {
            let mut body = live.head();
            body["status"] = json!({ "conditions": wanted.iter().map(written).collect::<Vec<_>>() });
            made::<Raw<ClusterOperator>>(writer.apply_status_of_cluster(&live.name_any(), &body).await?)?;
        }
        Ok(again.map(|at| {
            Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_secs(1)
        }))
    }

    /// The operator is gone, and with it what there is to show. The cache may be late: the API server is asked.
    pub(super) async fn gone(&self, client: &Client, writer: &Writer) -> Result<(), Error> {
        let api: Api<Raw<ClusterOperator>> = Api::all(client.clone());
        match api.get_opt(&self.name).await? {
            Some(live) => made(writer.delete_of_cluster(&live).await?).map(drop),
            None => Ok(()),
        }
    }
}

fn part(condition: &Condition) -> OperatorCondition {
    OperatorCondition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        changed: condition.last_transition_time.0,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

fn written(condition: &OperatorCondition) -> Value {
    json!({
        "type": condition.type_,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.changed.to_string(),
    })
}

/// What was written; everything else is a reason to look again.
pub(super) fn made<K>(outcome: Outcome<K>) -> Result<K, Error> {
    match outcome {
        Outcome::Applied(object) => Ok(object),
        Outcome::Unchanged => Err(Error::NotWritten("nothing to write".into())),
        Outcome::Missing => Err(Error::NotWritten("the object is gone".into())),
        Outcome::Stale(why)
        | Outcome::Conflict(why)
        | Outcome::Rejected(why)
        | Outcome::Forbidden(why)
        | Outcome::Unavailable(why)
        | Outcome::Unknown(why) => Err(Error::NotWritten(why)),
    }
}

impl From<write::Error> for Error {
    fn from(error: write::Error) -> Self {
        Self::Write(error)
    }
}
