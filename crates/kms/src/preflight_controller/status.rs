//! Writes the result and the conditions of a check to the operator resource.

use api::kms::{KEY_ID_LIMIT, UNKNOWN_KEY_ID, sanitize};
use api::names::kms::preflight as names;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use plan::kms::preflight::{CheckResult, PreflightProblem};
use serde_json::{Value, json};

use super::operator_resource::{NAME, OperatorKind};
use super::reconcile::Error;

/// Maximum length of a condition's message, in characters.
const MESSAGE_LIMIT: usize = 32_768;

/// Stores the result for a hash, unless the resource changed since it was read: it may request another hash by now.
pub(super) async fn store_result(
    client: &Client,
    kind: OperatorKind,
    operator: &DynamicObject,
    hash: &str,
    result: &CheckResult,
) -> Result<(), Error> {
    let id = result.remote_key_id.as_deref().map(|id| sanitize(id, KEY_ID_LIMIT)).filter(|id| !id.is_empty());
    let value = json!({
        "status": if result.succeeded { "Succeeded" } else { "Failed" },
        "configHash": hash,
        // Required by the schema: a failure without a key id could not be stored.
        "remoteKeyID": id.unwrap_or_else(|| UNKNOWN_KEY_ID.to_owned()),
    });
    let status = kind.status_with(json!({ "preflight": { "result": value } }));
    let patch = json!({ "metadata": { "resourceVersion": operator.resource_version() }, "status": status });
    let params = PatchParams { field_manager: Some(names::MANAGER.into()), ..PatchParams::default() };
    let stored = kind.api(client).patch_status(NAME, &params, &Patch::Merge(&patch)).await;
    stored.map(drop).map_err(|error| Error::Write(format!("storing the result: {error}")))
}

/// Applies the controller's conditions if they differ from the stored ones.
pub(super) async fn apply_conditions(
    client: &Client,
    kind: OperatorKind,
    operator: &DynamicObject,
    degraded: Option<&PreflightProblem>,
    progressing: Option<&str>,
) -> Result<(), Error> {
    let now = Timestamp::now();
    let degraded = degraded.map(|it| (it.reason.as_str(), it.message.as_str()));
    let progressing = progressing.map(|message| ("RunningPreflightCheck", message));
    let desired = [
        condition(operator, names::DEGRADED, degraded, now),
        condition(operator, names::PROGRESSING, progressing, now),
    ];
    if desired
        .iter()
        .all(|condition| stored(operator, condition["type"].as_str().unwrap_or_default()) == Some(condition))
    {
        return Ok(());
    }
    let mut body = kind.apply_identity();
    body["status"] = json!({ "conditions": desired });
    let params = PatchParams::apply(names::MANAGER).force();
    let applied = kind.api(client).patch_status(NAME, &params, &Patch::Apply(&body)).await;
    applied.map(drop).map_err(|error| Error::Write(format!("updating conditions: {error}")))
}

fn stored<'a>(operator: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let all = operator.data["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == type_)
}

/// Returns a condition, True with a reason and message if there are any. The transition time changes only with the status.
fn condition(operator: &DynamicObject, type_: &str, holds: Option<(&str, &str)>, now: Timestamp) -> Value {
    let status = if holds.is_some() { "True" } else { "False" };
    let (reason, message) = holds.unwrap_or(("AsExpected", ""));
    let since = stored(operator, type_)
        .filter(|before| before["status"] == status)
        .and_then(|before| before["lastTransitionTime"].as_str().map(str::to_owned));
    let since = since.unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let mut condition =
        json!({ "type": type_, "status": status, "reason": reason, "lastTransitionTime": since });
    // The API server drops an empty message, so sending one would cause a write in every reconcile.
    if !message.is_empty() {
        condition["message"] = json!(sanitize(message, MESSAGE_LIMIT));
    }
    condition
}
