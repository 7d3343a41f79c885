//! Writes what was proved, and how the check is doing, on the operator's resource.

use api::kms::{KEY_ID_LIMIT, UNKNOWN_KEY_ID, clean};
use api::names::kms::preflight as names;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use plan::kms::preflight::{Proved, Trouble};
use serde_json::{Value, json};

use super::pass::Error;
use super::resource::{Kind, NAME};

/// Most characters of a message.
const MESSAGE_LIMIT: usize = 32_768;

/// Stores what was proved for a hash, if the resource is still as it was read: the hash may be another by now.
pub(super) async fn store(
    client: &Client,
    kind: Kind,
    operator: &DynamicObject,
    hash: &str,
    proved: &Proved,
) -> Result<(), Error> {
    let id = proved.remote_key_id.as_deref().map(|id| clean(id, KEY_ID_LIMIT)).filter(|id| !id.is_empty());
    // The field is required: a failure without it could not be stored.
    let result = json!({
        "status": if proved.succeeded { "Succeeded" } else { "Failed" },
        "configHash": hash,
        "remoteKeyID": id.unwrap_or_else(|| UNKNOWN_KEY_ID.to_owned()),
    });
    let status = kind.status(json!({ "preflight": { "result": result } }));
    let patch = json!({ "metadata": { "resourceVersion": operator.resource_version() }, "status": status });
    let params = PatchParams { field_manager: Some(names::MANAGER.into()), ..PatchParams::default() };
    let stored = kind.api(client).patch_status(NAME, &params, &Patch::Merge(&patch)).await;
    stored.map(drop).map_err(|error| Error::Write(format!("storing the result: {error}")))
}

/// Tells how the check is doing. Only what differs is written.
pub(super) async fn tell(
    client: &Client,
    kind: Kind,
    operator: &DynamicObject,
    degraded: Option<&Trouble>,
    progressing: Option<&str>,
) -> Result<(), Error> {
    let now = Timestamp::now();
    let wanted = [
        condition(
            operator,
            names::DEGRADED,
            degraded.map(|it| (it.reason.as_str(), it.message.as_str())),
            now,
        ),
        condition(operator, names::PROGRESSING, progressing.map(|why| ("RunningPreflightCheck", why)), now),
    ];
    if wanted
        .iter()
        .all(|condition| stored(operator, condition["type"].as_str().unwrap_or_default()) == Some(condition))
    {
        return Ok(());
    }
    let mut body = kind.identity();
    body["status"] = json!({ "conditions": wanted });
    let params = PatchParams::apply(names::MANAGER).force();
    let told = kind.api(client).patch_status(NAME, &params, &Patch::Apply(&body)).await;
    told.map(drop).map_err(|error| Error::Write(format!("telling how the check is doing: {error}")))
}

fn stored<'a>(operator: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let all = operator.data["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == type_)
}

/// A condition; the time of its transition moves only with its status.
fn condition(operator: &DynamicObject, type_: &str, holds: Option<(&str, &str)>, now: Timestamp) -> Value {
    let status = if holds.is_some() { "True" } else { "False" };
    let (reason, message) = holds.unwrap_or(("AsExpected", ""));
    let since = stored(operator, type_)
        .filter(|before| before["status"] == status)
        .and_then(|before| before["lastTransitionTime"].as_str().map(str::to_owned));
    let since = since.unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let mut condition =
        json!({ "type": type_, "status": status, "reason": reason, "lastTransitionTime": since });
    // An empty message is not kept, and would be written again and again.
    if !message.is_empty() {
        condition["message"] = json!(clean(message, MESSAGE_LIMIT));
    }
    condition
}
