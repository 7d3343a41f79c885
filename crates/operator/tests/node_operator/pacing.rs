//! Updates that no edit asks for: few nodes at a time, and validators last.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, is_pod_deletion, is_ready, reason};
use crate::history::{Entry, History};

const NODES: usize = 12;
const LIMIT: usize = 2;
const IMAGE: &str = "images.example/sidecar:v2";

fn is_available(pod: &Entry) -> bool {
    let conditions = pod.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    is_ready && !pod.is_deleted && pod.object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the largest number of pods that were unavailable at the same time, and the nodes in the order in which they were updated.
fn disruptions(history: &History) -> (usize, Vec<String>) {
    let mut pods = history.entries_of_kind("Pod");
    pods.sort_by_key(|pod| pod.version);
    let (mut unavailable, mut most, mut order) = (BTreeSet::new(), 0, Vec::new());
    for pod in pods {
        if is_available(&pod) {
            unavailable.remove(&pod.name);
        } else if unavailable.insert(pod.name.clone()) {
            order.push(pod.name.trim_end_matches("-0").to_owned());
        }
        most = most.max(unavailable.len());
    }
    (most, order)
}

/// Returns the largest number of pods between their deletion by the operator and the last write of their new status, from the
/// audit log: at least as many as were unavailable at the same time.
fn audited_disruptions(fixture: &Fixture<'_>) -> Result<usize, Error> {
    let deletions = fixture.writes()?.into_iter().filter(is_pod_deletion);
    let mut changes = Vec::new();
    for deletion in deletions {
        let is_status = |request: &AuditedRequest| {
            (request.resource.as_str(), request.subresource.as_str()) == ("pods", "status")
                && (&request.name, &request.namespace) == (&deletion.name, &deletion.namespace)
        };
        let written = fixture.plane.audit().requests(is_status)?.into_iter().map(|request| request.responded);
        let until = written.filter(|time| *time > deletion.received).max();
        let until = until.ok_or_else(|| Error::Other(format!("{} was never ready again", deletion.name)))?;
        changes.extend([(deletion.received, 1), (until, -1)]);
    }
    changes.sort();
    let most = changes.iter().scan(0, |count, (_, change)| {
        *count += change;
        Some(*count)
    });
    Ok(usize::try_from(most.max().unwrap_or_default()).unwrap_or_default())
}

/// A changed default image of the sidecar replaced all pods at once.
pub async fn changed_default_sidecar_image_disrupts_few_nodes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let limit = LIMIT.to_string();
    let operator = fixture.start_operator_with(|program| program.flag("max-platform-disruptions", &limit))?;
    // The validator has the first name: its position does not follow from that.
    let names: Vec<String> = (0..NODES).map(|index| format!("node-{index:02}")).collect();
    for (index, name) in names.iter().enumerate() {
        let change = |node: &mut Value| {
            node["spec"]["chainId"] = json!(if index % 2 == 0 { "arctic-1" } else { "atlantic-2" });
            if index == 0 {
                node["spec"]["fullNode"] = Value::Null;
                node["spec"]["validator"] = json!({});
            }
        };
        fixture.create(name, change).await?;
    }
    for name in &names {
        fixture.wait_ready(name, "it is ready").await?;
    }
    operator.terminate()?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator_with(|program| {
        program.flag("max-platform-disruptions", &limit).env("SEI_SIDECAR_IMAGE", IMAGE)
    })?;
    let queued = |entry: &Entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateQueued";
    history.first("SeiNode", "node-00", queued).await?;
    for name in &names {
        let is_updated = |node: &_, status: &_| {
            let status: &api::sei_node::SeiNodeStatus = status;
            is_ready(node, status) && status.current_sidecar_image.as_deref() == Some(IMAGE)
        };
        fixture.wait_until(name, "it runs the new image", is_updated).await?;
    }
    let (most, order) = disruptions(&history);
    let audited = audited_disruptions(&fixture)?;
    println!(
        "pacing: {NODES} nodes, at most {most} unavailable (limit {LIMIT}; {audited} by the audit log), in the order {}",
        order.join(" ")
    );
    assert!((1..=LIMIT).contains(&most), "{most} pods were unavailable at the same time: {order:?}");
    assert!((1..=LIMIT).contains(&audited), "{audited} pods were being replaced at the same time: {order:?}");
    assert_eq!(order.len(), NODES, "each pod was replaced once: {order:?}");
    let same_chain: Vec<&String> = order
        .iter()
        .filter(|name| names.iter().position(|one| one == *name).is_some_and(|index| index % 2 == 0))
        .collect();
    assert_eq!(
        same_chain.last().map(|name| name.as_str()),
        Some("node-00"),
        "the validator is last: {order:?}"
    );
    Ok(())
}
