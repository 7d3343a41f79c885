//! Tests of the metrics as they are scraped.

use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;
use plan::node::ChainObservation;
use runtime::Key;
use runtime::metrics::catalog::{self, Type};
use serde_json::{Value, json};

use super::*;

fn node(name: &str, status: Value) -> SeiNode {
    serde_json::from_value(json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
        "metadata": { "name": name, "namespace": "sei" },
        "spec": { "chainId": "pacific-1", "image": "images.example/seid:1", "fullNode": {} },
        "status": status,
    }))
    .unwrap()
}

fn status(document: Value) -> SeiNodeStatus {
    serde_json::from_value(document).unwrap()
}

fn plan(id: &str, phase: &str, tasks: &[&str]) -> Value {
    let tasks: Vec<Value> =
        tasks.iter().map(|task| json!({ "type": task, "id": "t", "status": "Pending" })).collect();
    json!({ "id": id, "phase": phase, "createdAt": "2026-05-18T10:00:00Z", "tasks": tasks })
}

fn at(text: &str) -> Time {
    Time(text.parse().unwrap())
}

/// Returns the heights of one node that has just answered.
fn heights() -> Arc<ChainHeights> {
    let heights = ChainHeights::default();
    let chain = json!({ "height": 7, "peers": 2, "catchingUp": false });
    let answer = ChainObservation::Found(Box::new(serde_json::from_value(chain).unwrap()));
    let node = Key { namespace: "sei".into(), name: "a".into() };
    heights.record(&node, "arctic-1", &answer, &Time(Timestamp::now()));
    Arc::new(heights)
}

/// The Secret of the certificate in these tests, and when it expires.
const TLS_SECRET: &str = "a-sidecar-tls";
const EXPIRY: i64 = 1_800_000_000;

/// Returns the status of a node that is served with a certificate.
fn with_tls(mut status: Value) -> Value {
    status["currentSidecarTLS"] = json!({ "scheme": "https", "secretName": TLS_SECRET });
    status
}

/// Returns metrics over nodes that a test may change.
fn metrics() -> (Metrics, NodeMetrics, Arc<Mutex<Vec<Arc<SeiNode>>>>) {
    let nodes: Arc<Mutex<Vec<Arc<SeiNode>>>> = Arc::default();
    let metrics = Metrics::new();
    let node_metrics = NodeMetrics::new(
        &metrics,
        {
            let nodes = nodes.clone();
            move |visit| nodes.lock().unwrap().iter().for_each(|node| visit(node))
        },
        heights(),
        |secret| (secret.namespace == "sei" && secret.name == TLS_SECRET).then_some(EXPIRY),
    );
    (metrics, node_metrics, nodes)
}

fn samples(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.encode();
    text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).map(str::to_owned).collect()
}

#[test]
fn deleted_node_has_no_series() {
    let (metrics, _, nodes) = metrics();
    let ready = json!({
        "type": "SidecarReady", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-05-18T10:00:00Z",
    });
    let running =
        json!({ "phase": "Running", "conditions": [ready], "plan": plan("p", "Active", &["mark-ready"]) });
    *nodes.lock().unwrap() =
        vec![Arc::new(node("a", running)), Arc::new(node("b", json!({ "phase": "Pending" })))];
    let phases = samples(&metrics, PHASE.name);
    assert_eq!(phases.len(), 10, "{phases:?}");
    assert!(
        phases
            .contains(&r#"sei_controller_seinode_phase{namespace="sei",name="a",phase="Running"} 1"#.into())
    );
    assert!(
        phases.contains(&r#"sei_controller_seinode_phase{namespace="sei",name="a",phase="Failed"} 0"#.into())
    );
    assert_eq!(
        samples(&metrics, PLAN_ACTIVE.name),
        [r#"sei_controller_plan_active{controller="seinode",namespace="sei"} 1"#]
    );
    assert_eq!(
        samples(&metrics, SIDECAR_READY.name),
        [r#"sei_controller_seinode_sidecar_ready{namespace="sei",name="a"} 1"#]
    );
    assert_eq!(
        samples(&metrics, CONDITIONS.name),
        [
            r#"outrigger_conditions{kind="SeiNode",namespace="sei",type="SidecarReady",status="True",reason="Ready"} 1"#
        ]
    );
    nodes.lock().unwrap().clear();
    for metric in [PHASE, PLAN_ACTIVE, SIDECAR_READY, CONDITIONS] {
        assert_eq!(samples(&metrics, metric.name), Vec::<String>::new());
    }
}

#[test]
fn certificate_expiration_is_exported_while_a_node_has_tls() {
    let (metrics, _, nodes) = metrics();
    let mut unknown = with_tls(json!({}));
    unknown["currentSidecarTLS"]["secretName"] = json!("not read yet");
    let all = [("a", with_tls(json!({}))), ("b", unknown), ("c", json!({}))];
    *nodes.lock().unwrap() = all.map(|(name, status)| Arc::new(node(name, status))).into();
    assert_eq!(
        samples(&metrics, CERTIFICATE_EXPIRATION.name),
        [r#"outrigger_certificate_expiration_timestamp_seconds{namespace="sei",name="a"} 1800000000"#]
    );
    let mut disabled = with_tls(json!({}));
    disabled["currentSidecarTLS"]["scheme"] = json!("http");
    *nodes.lock().unwrap() = vec![Arc::new(node("a", disabled))];
    assert_eq!(samples(&metrics, CERTIFICATE_EXPIRATION.name), Vec::<String>::new());
    nodes.lock().unwrap().clear();
    assert_eq!(samples(&metrics, CERTIFICATE_EXPIRATION.name), Vec::<String>::new());
}

#[test]
fn phase_duration_is_recorded_for_the_phase_left() {
    let (metrics, node_metrics, _) = metrics();
    let before = status(json!({ "phase": "Initializing", "phaseTransitionTime": "2026-05-18T10:00:00Z" }));
    let after = status(json!({ "phase": "Running", "phaseTransitionTime": "2026-05-18T10:01:30Z" }));
    node_metrics.record_status_change(&node("a", json!({})), &before, &after, &at("2026-05-18T10:01:30Z"));
    let sum = "sei_controller_seinode_phase_duration_seconds_sum";
    assert_eq!(
        samples(&metrics, sum),
        [format!(r#"{sum}{{namespace="sei",chain_id="pacific-1",phase="Initializing"}} 90.0"#)]
    );
    assert_eq!(
        samples(&metrics, TRANSITIONS.name),
        [
            r#"sei_controller_seinode_phase_transitions_total{controller="seinode",namespace="sei",from_phase="Initializing",to_phase="Running"} 1"#
        ]
    );
    // An unchanged phase is not counted.
    node_metrics.record_status_change(&node("a", json!({})), &after, &after, &at("2026-05-18T10:05:00Z"));
    assert_eq!(samples(&metrics, TRANSITIONS.name).len(), 1);
}

#[test]
fn plan_duration_is_recorded_once_per_plan() {
    let update = ["replace-pod", "observe-image", "mark-ready"];
    let (active, failed) = (plan("p", "Active", &update), plan("p", "Failed", &update));
    let complete = plan("p", "Complete", &update);
    let cases = [
        (json!({ "plan": active }), json!({ "plan": complete }), Some("complete")),
        (json!({ "plan": active }), json!({ "plan": failed }), Some("failed")),
        (json!({ "plan": active }), json!({ "plan": plan("q", "Active", &update) }), Some("superseded")),
        (json!({ "plan": active }), json!({ "plan": active }), None),
        (json!({ "plan": complete }), json!({}), None),
        (json!({}), json!({ "plan": active }), None),
    ];
    for (before, after, outcome) in cases {
        let (metrics, node_metrics, _) = metrics();
        node_metrics.record_status_change(
            &node("a", json!({})),
            &status(before),
            &status(after),
            &at("2026-05-18T10:00:07Z"),
        );
        let sum = "sei_controller_plan_duration_seconds_sum";
        let labels = |outcome| {
            format!(r#"controller="seinode",namespace="sei",plan_type="node-update",outcome="{outcome}""#)
        };
        let expected: Vec<String> =
            outcome.iter().map(|outcome| format!("{sum}{{{}}} 7.0", labels(outcome))).collect();
        assert_eq!(samples(&metrics, sum), expected);
    }
}

#[test]
fn plan_type_is_derived_from_tasks() {
    let type_of = |tasks: &[&str]| plan_type(&serde_json::from_value(plan("p", "Active", tasks)).unwrap());
    assert_eq!(type_of(&["ensure-data-pvc", "observe-image", "observe-sidecar-tls"]), "init");
    assert_eq!(type_of(&["replace-pod", "observe-image", "mark-ready"]), "node-update");
    assert_eq!(type_of(&["replace-pod", "config-apply", "mark-ready"]), "node-update");
    assert_eq!(type_of(&["replace-pod", "observe-sidecar-tls", "mark-ready"]), "tls-toggle");
    assert_eq!(
        type_of(&["replace-pod", "observe-image", "observe-sidecar-tls", "mark-ready"]),
        "node-update-tls"
    );
    assert_eq!(type_of(&["mark-ready"]), "mark-ready-reapply");
}

#[test]
fn registered_metrics_match_their_descriptions() {
    let (metrics, node_metrics, nodes) = metrics();
    let condition = json!({
        "type": "SidecarReady", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-05-18T10:00:00Z",
    });
    let running = with_tls(json!({ "phase": "Running", "conditions": [condition] }));
    nodes.lock().unwrap().push(Arc::new(node("a", running)));
    let before = json!({
        "phase": "Pending", "phaseTransitionTime": "2026-05-18T10:00:00Z", "plan": plan("p", "Active", &["mark-ready"]),
    });
    node_metrics.record_status_change(
        &node("a", json!({})),
        &status(before),
        &status(json!({ "phase": "Running" })),
        &at("2026-05-18T10:00:07Z"),
    );
    node_metrics.record_probe("sei", &Health::NotReady);
    node_metrics.record_probe("sei", &Health::Unknown);
    node_metrics.record_reconcile_error("sei");

    assert_eq!(samples(&metrics, HEIGHT.name), [r#"outrigger_node_height{namespace="sei",name="a"} 7"#]);
    let text = metrics.encode();
    for described in ALL {
        let name = described.name;
        let starts = [format!("{name}{{"), format!("{name}_bucket{{")];
        let sample = text.lines().find(|line| starts.iter().any(|start| line.starts_with(start)));
        let sample = sample.unwrap_or_else(|| panic!("{name} is missing in\n{text}"));
        for label in described.labels {
            assert!(sample.contains(&format!("{label}=\"")), "{sample} lacks {label}");
        }
        assert_eq!(described.kind == Type::Counter, name.ends_with("_total"), "{name}");
        assert!(!described.help.ends_with('.'), "the encoder adds the period: {name}");
    }
    let described: Vec<&str> =
        catalog::ALL.iter().chain(ALL).map(|metric| metric.name.trim_end_matches("_total")).collect();
    let served = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let undescribed: Vec<&str> = served.filter(|name| !described.contains(name)).collect();
    assert_eq!(undescribed, Vec::<&str>::new());
    assert_eq!(samples(&metrics, PROBES.name).len(), 1, "a pending probe is not counted");
}

#[test]
fn metrics_page_is_up_to_date() -> testbed::Result<()> {
    let page = catalog::page(&[("All processes", catalog::ALL), ("Operator", ALL)]);
    testbed::harness::generated::check("docs/reference/metrics.md", &page)
}
