//! Validates an imported claim of the data volume.

use api::SeiNode;
use api::names::object;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::CheckResult;
use crate::node::context::{NodeContext, is_terminating, name_of};
use crate::node::exclusive::ExclusiveObject;
use crate::node::observed::VolumeObservation;
use crate::node::retention;
use crate::quantity::Quantity;

/// Access modes that let a pod write.
const WRITABLE: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// Returns the name of the claim that a node imports.
#[must_use]
pub(crate) fn imported(node: &SeiNode) -> Option<&str> {
    let volume = node.spec.data_volume.as_ref()?;
    volume.import.as_ref().map(|import| import.pvc_name.as_str()).filter(|name| !name.is_empty())
}

/// Returns what to do about the claim of a node if it is being deleted while the node uses it. A claim that a previous node with the
/// same name has left behind is only waited for.
pub(crate) fn termination_in_use(context: NodeContext<'_>, status: &SeiNodeStatus) -> Option<String> {
    let NodeContext { node, observed, .. } = context;
    let live = observed.claim.as_deref()?;
    let is_own = imported(node).is_some() || retention::is_own(node, live);
    let has_pod = context.pod().is_some() || context.bootstrap_pod().is_some();
    let is_set_up_with = ExclusiveObject::Claim(name_of(live).to_owned()).is_held_in(status);
    let is_used = status.phase == Some(SeiNodePhase::Running) || is_own && (has_pod || is_set_up_with);
    termination(Some(live)).filter(|_| is_used)
}

/// Returns what to do about the claim of a node if it is being deleted. Kubernetes keeps such a claim only while a pod uses it,
/// so the pod must not be replaced.
pub(crate) fn termination(claim: Option<&PersistentVolumeClaim>) -> Option<String> {
    let claim = claim.filter(|claim| is_terminating(*claim))?;
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or("<its volume>");
    Some(format!(
        "PersistentVolumeClaim {} is being deleted and is lost with its data when the pod stops: to keep the data, run \
         `kubectl patch pv {volume} -p '{{\"spec\":{{\"persistentVolumeReclaimPolicy\":\"Retain\"}}}}'`, then delete the node and \
         create it again with the volume imported; or back the data up",
        name_of(claim)
    ))
}

/// Returns what to do about the missing claim of a node that signs.
pub(crate) fn loss(node: &SeiNode) -> String {
    format!(
        "PersistentVolumeClaim {} not found: restore it with its data (with an empty volume the validator could sign a block twice), \
         or delete the node",
        object::data_claim(name_of(node))
    )
}

/// Validates an imported claim. It is never changed.
pub(crate) fn check(context: NodeContext<'_>, name: &str) -> CheckResult {
    let NodeContext { kind, platform, observed, .. } = context;
    let Some(claim) = observed.claim.as_deref() else {
        return CheckResult::Pending(format!("PersistentVolumeClaim {name} not found: create it"));
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return CheckResult::Pending(format!(
            "PersistentVolumeClaim {name} is being deleted: create it again"
        ));
    }
    let status = claim.status.clone().unwrap_or_default();
    match status.phase.as_deref() {
        Some("Bound") => {}
        Some("Lost") => {
            return CheckResult::Invalid(format!(
                "PersistentVolumeClaim {name} has lost its volume: import another one"
            ));
        }
        phase => {
            return CheckResult::Pending(format!(
                "PersistentVolumeClaim {name} is {}, not Bound",
                phase.unwrap_or("new")
            ));
        }
    }
    if !is_writable(claim) {
        return CheckResult::Invalid(format!(
            "PersistentVolumeClaim {name} is not writable: import one with access mode ReadWriteOnce"
        ));
    }
    let Some(capacity) = status.capacity.as_ref().and_then(|all| all.get("storage")) else {
        return CheckResult::Pending(format!("PersistentVolumeClaim {name} reports no capacity yet"));
    };
    let required = &kind.storage(platform).size;
    match (Quantity::parse(&capacity.0), Quantity::parse(required)) {
        (Some(actual), Some(minimum)) if actual < minimum => {
            return CheckResult::Invalid(format!(
                "PersistentVolumeClaim {name} has a capacity of {} and {} needs {required}: import a larger one",
                capacity.0,
                kind.field()
            ));
        }
        (Some(_), Some(_)) => {}
        _ => {
            return CheckResult::Invalid(format!(
                "PersistentVolumeClaim {name} has a capacity that is not a valid quantity: {}",
                capacity.0
            ));
        }
    }
    if claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_none_or(str::is_empty) {
        return CheckResult::Pending(format!("PersistentVolumeClaim {name} has no volumeName yet"));
    }
    match &observed.volume {
        VolumeObservation::Missing => CheckResult::Pending(format!(
            "the PersistentVolume of PersistentVolumeClaim {name} was not found"
        )),
        VolumeObservation::Found(volume) => check_volume(name, &capacity.0, volume),
        // What the claim reports has to do.
        VolumeObservation::NotPermitted => CheckResult::Valid,
    }
}

fn is_writable(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.iter().any(|mode| WRITABLE.contains(&mode.as_str()))
}

fn check_volume(claim: &str, capacity: &str, volume: &PersistentVolume) -> CheckResult {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed") {
        return CheckResult::Invalid(format!(
            "PersistentVolume {name} of PersistentVolumeClaim {claim} has failed: import another one"
        ));
    }
    let actual = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    let actual = actual.map(|quantity| quantity.0.as_str()).unwrap_or_default();
    if Quantity::parse(actual) == Quantity::parse(capacity) {
        return CheckResult::Valid;
    }
    CheckResult::Invalid(format!(
        "PersistentVolume {name} has {actual} and PersistentVolumeClaim {claim} reports {capacity}: finish the resize"
    ))
}
