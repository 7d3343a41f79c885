//! The PodDisruptionBudget of a validator.

use api::names::annotation::ALLOW_EVICTION;
use api::sei_node::SeiNodePhase;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::cluster::Cluster;
use super::fixture::{converge, message, node, platform, reason, run_once, running, status, validator};
use super::reconcile::{Fault, REFUSAL, reconcile};

/// Returns how many pods the budget allows to be unavailable.
fn max_unavailable(cluster: &Cluster) -> Option<IntOrString> {
    cluster.observed.disruption_budget.as_ref()?.spec.as_ref()?.max_unavailable.clone()
}

fn set_annotation(cluster: &mut Cluster, value: Option<&str>) {
    let annotations = cluster.node.metadata.annotations.get_or_insert_default();
    annotations.remove(ALLOW_EVICTION);
    annotations.extend(value.map(|value| (ALLOW_EVICTION.to_owned(), value.to_owned())));
}

fn assert_steady(cluster: &mut Cluster) {
    let writes = cluster.writes;
    converge(cluster, &platform());
    assert_eq!(cluster.writes, writes, "writes in steady state");
}

#[test]
fn only_validators_have_a_budget_and_it_blocks_evictions() {
    let mut cluster = running(validator("a"), &platform());
    assert_eq!(max_unavailable(&cluster), Some(IntOrString::Int(0)));
    assert_steady(&mut cluster);
    let cluster = running(node("b"), &platform());
    assert_eq!(max_unavailable(&cluster), None);
}

#[test]
fn annotation_allows_evictions_until_it_is_removed() {
    let mut cluster = running(validator("a"), &platform());
    for (value, allowed) in [(Some("true"), 1), (Some("false"), 0), (Some("true"), 1), (None, 0)] {
        set_annotation(&mut cluster, value);
        converge(&mut cluster, &platform());
        assert_eq!(max_unavailable(&cluster), Some(IntOrString::Int(allowed)), "{value:?}");
        assert_steady(&mut cluster);
    }
    assert!(cluster.pod_deletions.is_empty());
}

/// The machine of a validator may be what an update of it hangs on.
#[test]
fn annotation_is_honored_while_an_update_hangs() {
    let mut cluster = running(validator("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    for _ in 0..5 {
        // Without a kubelet, the new pod does not start.
        cluster.run_stateful_set_controller();
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert_eq!(reason(&cluster, "Ready"), "Updating");
    set_annotation(&mut cluster, Some("true"));
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(max_unavailable(&cluster), Some(IntOrString::Int(1)));
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
}

#[test]
fn deleted_or_modified_budget_is_restored_unless_paused() {
    let mut cluster = running(validator("a"), &platform());
    cluster.observed.disruption_budget = None;
    converge(&mut cluster, &platform());
    assert_eq!(max_unavailable(&cluster), Some(IntOrString::Int(0)));
    let mut modified = (**cluster.observed.disruption_budget.as_ref().unwrap()).clone();
    modified.spec.as_mut().unwrap().max_unavailable = Some(IntOrString::Int(1));
    cluster.observed.disruption_budget = Some(modified.into());
    converge(&mut cluster, &platform());
    assert_eq!(max_unavailable(&cluster), Some(IntOrString::Int(0)));
    cluster.edit(|node| node.spec.paused = true);
    cluster.observed.disruption_budget = None;
    converge(&mut cluster, &platform());
    assert_eq!(max_unavailable(&cluster), None);
}

#[test]
fn refused_budget_is_reported_and_retried() {
    let mut cluster = running(validator("a"), &platform());
    cluster.observed.disruption_budget = None;
    reconcile(&mut cluster, &platform(), Fault::Refused);
    assert_eq!(reason(&cluster, "SpecApplied"), "WriteRefused");
    let text = message(&cluster, "SpecApplied");
    assert_eq!(text, format!("PodDisruptionBudget: {REFUSAL}"));
    run_once(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
}
