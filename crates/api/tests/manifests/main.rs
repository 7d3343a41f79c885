//! The CRDs on a real API server: validation and its messages, storage, and the output of kubectl.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

#[path = "../documents/mod.rs"]
mod documents;
mod plane;
mod stored;
mod table;
mod transitions;

use std::time::Duration;

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, TestResult};

testbed::suite![
    crds_are_accepted_without_warnings,
    objects_accepted_by_older_rules_stay_editable,
    table::manifests_are_accepted_or_rejected_with_expected_message,
    transitions::immutable_fields_survive_every_sequence_of_edits,
    transitions::mutable_fields_can_be_changed,
    transitions::objects_can_be_emptied_by_server_side_apply,
    stored::full_documents_are_stored_unchanged,
    stored::defaults_are_set,
    stored::kubectl_get_prints_health_columns,
    stored::kubectl_explain_describes_every_kind,
    stored::fleet_with_signing_key_cannot_be_scaled,
    stored::reports_of_failing_plugins_are_always_storable,
];

/// Objects that the previous operator accepted must stay editable, even if the current rules would reject them.
async fn objects_accepted_by_older_rules_stay_editable(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    let (client, ns) = (plane.client().await?, plane.namespace("older").await?);
    let mut older = serde_json::to_value(api::crd::all())?;
    without_rules(&mut older);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": older });
    let applied = plane::kubectl(&plane, &["apply", "--server-side", "-f", "-"], &list.to_string())?;
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": "older" },
        "spec": {
            "chainId": "Sei_Dev", "image": "sei:v1", "podLabels": { "team": "chain team" },
            "fullNode": { "snapshot": { "stateSync": {}, "bootstrapImage": "sei:v0" } },
        },
    });
    let path = plane::collection(&node, &ns);
    wait::until("the older CRDs", Duration::from_secs(30), || plane::call(&client, "POST", &path, &node))
        .await?;
    plane::install(&plane).await?;
    let path = format!("{path}/older");
    for (path, change) in [
        (path.clone(), json!({ "spec": { "image": "sei:v2" } })),
        (format!("{path}/status"), json!({ "status": { "phase": "Running" } })),
        (path.clone(), json!({ "metadata": { "finalizers": [api::names::finalizer::NODE] } })),
    ] {
        plane::call(&client, "PATCH", &path, &change).await.map_err(|error| format!("{change}: {error}"))?;
    }
    let rejected =
        plane::call(&client, "PATCH", &path, &json!({ "spec": { "podLabels": { "team": "other team" } } }))
            .await;
    assert!(
        rejected.is_err_and(|error| error.contains("label values must")),
        "a changed value must follow the rules"
    );
    Ok(())
}

fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

async fn crds_are_accepted_without_warnings(cx: Context) -> TestResult {
    assert_eq!(plane::warnings(&cx).await?, "");
    Ok(())
}
