//! The PodDisruptionBudget of a validator.

use api::SeiNode;
use api::names::{annotation, label, object, role};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::meta;

/// The annotation value that allows evictions.
const ALLOWED: &str = "true";

/// Renders the PodDisruptionBudget of a validator. It blocks every eviction: a drain or an autoscaler must not stop a validator
/// unless a person allows it with an annotation. A budget over all validators of a chain is not possible, since
/// a pod that two budgets select cannot be evicted at all.
#[must_use]
pub fn disruption_budget(node: &SeiNode) -> PodDisruptionBudget {
    let is_allowed = is_eviction_allowed(node);
    let mut selector = meta::selector(node);
    // Not the bootstrap pod, which has no role: its Job has no scale, and the budget could not be computed.
    selector.insert(label::ROLE.into(), role::VALIDATOR.into());
    PodDisruptionBudget {
        metadata: meta::object_meta(node, object::disruption_budget(meta::name(node)), meta::labels(node)),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(i32::from(is_allowed))),
            selector: Some(meta::match_labels(selector)),
            // The exporter is never ready on a validator, so neither is its pod: the default policy would block the eviction.
            unhealthy_pod_eviction_policy: is_allowed.then(|| "AlwaysAllow".into()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

/// Returns whether the pod of a node may be evicted.
#[must_use]
pub fn is_eviction_allowed(node: &SeiNode) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(annotation::ALLOW_EVICTION)).is_some_and(|value| value == ALLOWED)
}
