//! The claim of the data volume: made by us, or given by somebody.

use api::SeiNode;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::Verdict;
use crate::node::kind::Kind;
use crate::node::world::World;
use crate::platform::Platform;
use crate::quantity::Quantity;

/// Access modes that let one pod write.
const WRITABLE: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// The name of the claim that a node imports.
#[must_use]
pub(crate) fn imported(node: &SeiNode) -> Option<&str> {
    let volume = node.spec.data_volume.as_ref()?;
    volume.import.as_ref().map(|import| import.pvc_name.as_str()).filter(|name| !name.is_empty())
}

/// Whether an imported claim is fit for a node. It is looked at, never changed.
pub(crate) fn check(name: &str, kind: Kind<'_>, platform: &Platform, world: &World) -> Verdict {
    let Some(claim) = world.claim.as_deref() else {
        return Verdict::NotYet(format!("claim {name} is not there: create it"));
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Verdict::NotYet(format!("claim {name} is being deleted: create it again"));
    }
    let status = claim.status.clone().unwrap_or_default();
    match status.phase.as_deref() {
        Some("Bound") => {}
        Some("Lost") => return Verdict::Unfit(format!("claim {name} has lost its volume")),
        phase => {
            return Verdict::NotYet(format!(
                "claim {name} is {}, not Bound",
                phase.unwrap_or("not bound yet")
            ));
        }
    }
    if !writable(claim) {
        return Verdict::Unfit(format!("claim {name} cannot be written by one pod: it needs ReadWriteOnce"));
    }
    let Some(capacity) = status.capacity.as_ref().and_then(|all| all.get("storage")) else {
        return Verdict::NotYet(format!("claim {name} does not tell its capacity yet"));
    };
    let wanted = &kind.storage(platform).size;
    match (Quantity::parse(&capacity.0), Quantity::parse(wanted)) {
        (Some(have), Some(want)) if have < want => {
            return Verdict::Unfit(format!(
                "claim {name} has {} and a {} needs {wanted}",
                capacity.0,
                kind.field()
            ));
        }
        (Some(_), Some(_)) => {}
        _ => {
            return Verdict::Unfit(format!(
                "claim {name} has a capacity that is no quantity: {}",
                capacity.0
            ));
        }
    }
    if claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_none_or(str::is_empty) {
        return Verdict::NotYet(format!("claim {name} names no volume yet"));
    }
    match world.volume.as_deref() {
        None => Verdict::NotYet(format!("the volume of claim {name} is not there")),
        Some(volume) => check_volume(name, &capacity.0, volume),
    }
}

fn writable(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.iter().any(|mode| WRITABLE.contains(&mode.as_str()))
}

fn check_volume(claim: &str, capacity: &str, volume: &PersistentVolume) -> Verdict {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed") {
        return Verdict::Unfit(format!("volume {name} of claim {claim} has failed"));
    }
    let own = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    let own = own.map(|quantity| quantity.0.as_str()).unwrap_or_default();
    if Quantity::parse(own) == Quantity::parse(capacity) {
        return Verdict::Fit;
    }
    Verdict::Unfit(format!("volume {name} has {own} and claim {claim} says {capacity}: finish the resize"))
}
