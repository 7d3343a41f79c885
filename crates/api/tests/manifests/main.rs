//! Our kinds on the real API server: what it accepts, what it refuses and in which words, what it stores, what it shows.

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

use crate::stored::{
    a_fleet_is_scaled_unless_its_nodes_would_sign_twice, defaults_are_filled_in,
    full_documents_are_stored_unchanged, kubectl_explains_every_kind, kubectl_shows_health_at_a_glance,
    reports_of_failing_plugins_are_always_storable,
};
use crate::table::every_manifest_is_accepted_or_refused_with_its_sentence;
use crate::transitions::{
    an_object_can_be_emptied_by_an_apply, defect_12_what_cannot_change_does_not_in_one_edit_nor_in_two,
    what_can_change_does,
};

testbed::suite![
    the_definitions_are_accepted_without_a_warning,
    what_older_rules_let_in_stays_editable,
    every_manifest_is_accepted_or_refused_with_its_sentence,
    defect_12_what_cannot_change_does_not_in_one_edit_nor_in_two,
    what_can_change_does,
    an_object_can_be_emptied_by_an_apply,
    full_documents_are_stored_unchanged,
    defaults_are_filled_in,
    kubectl_shows_health_at_a_glance,
    kubectl_explains_every_kind,
    a_fleet_is_scaled_unless_its_nodes_would_sign_twice,
    reports_of_failing_plugins_are_always_storable,
];

/// Objects that the operator which we replace let through must stay editable under rules that would not let them in.
async fn what_older_rules_let_in_stays_editable(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).start().await?;
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
    wait::until("older definitions", Duration::from_secs(30), || plane::call(&client, "POST", &path, &node))
        .await?;
    plane::install(&plane).await?;
    let path = format!("{path}/older");
    for (path, change) in [
        (path.clone(), json!({ "spec": { "image": "sei:v2" } })),
        (format!("{path}/status"), json!({ "status": { "phase": "Running" } })),
        (path.clone(), json!({ "metadata": { "finalizers": [api::names::finalizer::NODE] } })),
    ] {
        plane::call(&client, "PATCH", &path, &change).await.map_err(|said| format!("{change}: {said}"))?;
    }
    let refused =
        plane::call(&client, "PATCH", &path, &json!({ "spec": { "podLabels": { "team": "other team" } } }))
            .await;
    assert!(
        refused.is_err_and(|said| said.contains("the value of a label")),
        "a new value must follow the rules"
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

async fn the_definitions_are_accepted_without_a_warning(cx: Context) -> TestResult {
    assert_eq!(plane::warnings(&cx).await?, "");
    Ok(())
}
