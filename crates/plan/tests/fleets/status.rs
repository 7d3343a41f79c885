//! The status: complete at every moment, and not written in steady state.

use api::fleet::{FleetNodeState, FleetPhase, SeiNodeDeploymentStatus};
use plan::fleet::transition_events;
use serde_json::json;

use super::cluster::{BETTER, Cluster, condition_types};

#[test]
fn status_is_never_empty_during_a_rollout() {
    let mut cluster = Cluster::available(4, json!(2));
    let types: Vec<String> =
        condition_types(&cluster.status().conditions).into_iter().map(str::to_owned).collect();
    assert_eq!(types.len(), 10, "{types:?}");
    cluster.edit_image(BETTER);
    let mut phases = Vec::new();
    for _ in 0..20 {
        cluster.reconcile();
        let status = cluster.status();
        assert_eq!(status.nodes.len(), 4);
        assert_eq!(status.replicas, Some(4));
        let available = status.available_replicas.unwrap() + status.unavailable_replicas.unwrap();
        assert_eq!(available, 4);
        assert_eq!(condition_types(&status.conditions).len(), 10);
        assert_eq!(status.selector.as_deref(), Some("sei.io/nodedeployment=f"));
        phases.push(status.phase.unwrap());
        cluster.pass(1);
        cluster.run_nodes();
    }
    assert!(
        phases.contains(&FleetPhase::Upgrading) && phases.last() == Some(&FleetPhase::Ready),
        "{phases:?}"
    );
}

#[test]
fn missing_nodes_count_as_unavailable() {
    let mut cluster = Cluster::available(3, json!(1));
    cluster.nodes.remove("f-1");
    cluster.nodes.remove("f-2");
    let decision = plan::fleet::decide(&cluster.fleet, cluster.status(), &cluster.observe(), &cluster.now);
    assert_eq!(decision.status.unavailable_replicas, Some(2));
    assert_eq!(decision.status.nodes[1].state, Some(FleetNodeState::Missing));
}

#[test]
fn steady_state_writes_nothing() {
    let mut cluster = Cluster::available(3, json!(1));
    let writes = cluster.status_writes;
    for _ in 0..100 {
        cluster.pass(30);
        assert!(!cluster.reconcile());
    }
    assert_eq!(cluster.status_writes, writes);
}

#[test]
fn transitions_emit_events() {
    let mut cluster = Cluster::available(2, json!(1));
    let before = cluster.status();
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    let during = cluster.status();
    cluster.converge();
    let reasons = |before: &SeiNodeDeploymentStatus, after: &SeiNodeDeploymentStatus| {
        transition_events(before, after).into_iter().map(|event| event.reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(&before, &during), ["RolloutStarted"]);
    assert_eq!(reasons(&during, &cluster.status()), ["RolloutComplete"]);
    assert_eq!(reasons(&Default::default(), &before), ["SeiNodeCreated", "SeiNodeCreated"]);
}

#[test]
fn published_fleet_has_a_service_for_its_routes() {
    let mut cluster = Cluster::available(1, json!(1));
    assert_eq!(cluster.services.keys().map(String::as_str).collect::<Vec<_>>(), ["f-internal"]);
    cluster.edit(|fleet| fleet.spec.networking = Some(api::fleet::Networking {}));
    cluster.converge();
    assert!(cluster.services.contains_key("f-external"));
    cluster.edit(|fleet| fleet.spec.networking = None);
    cluster.converge();
    assert!(!cluster.services.contains_key("f-external"));
}
