//! Steps that apply, create or delete an object.

use api::drift::Drift;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube_core::Resource;
use serde::Serialize;

use super::StepOutcome;
use crate::node::action::{Action, Deletion, Object};
use crate::node::check::claim;
use crate::node::context::{NodeContext, is_controlled_by, is_terminating, kind_of, name_of};
use crate::node::observed::WriteFailure;
use crate::render::RenderError;

/// Applies an object. The step is complete once the live object is in sync.
pub(super) fn apply<K, L>(
    context: NodeContext<'_>,
    live: Option<&L>,
    desired: impl Fn() -> Result<K, RenderError>,
    wrap: fn(Box<K>) -> Object,
) -> StepOutcome
where
    K: Resource<DynamicType = ()> + Serialize,
    L: Resource<DynamicType = ()> + Serialize,
{
    let kind = kind_of::<K>();
    if let Some(live) = live {
        if is_terminating(live) {
            return StepOutcome::wait(kind, name_of(live), "it is being deleted");
        }
        if !is_controlled_by(context.node, live) && has_owner(live) {
            return not_owned(live);
        }
        let cache = &context.observed.render_cache;
        match cache.desired_hash(context.node, kind, &desired) {
            Ok(hash) if cache.compare(context.node, live, &hash, &desired) == Drift::InSync => {
                return StepOutcome::DONE;
            }
            Ok(_) => {}
            Err(error) => return StepOutcome::Fatal(error.to_string()),
        }
    }
    write(context, desired(), wrap, Action::Apply)
}

/// Creates an object. The step is complete once the object exists and the node controls it.
pub(super) fn create<K>(
    context: NodeContext<'_>,
    live: Option<&K>,
    desired: impl Fn() -> Result<K, RenderError>,
    wrap: fn(Box<K>) -> Object,
) -> StepOutcome
where
    K: Resource<DynamicType = ()> + Serialize,
{
    match live {
        Some(live) if is_terminating(live) => {
            StepOutcome::wait(kind_of::<K>(), name_of(live), "the previous one is still being deleted")
        }
        Some(live) if is_controlled_by(context.node, live) => StepOutcome::DONE,
        Some(live) => not_owned(live),
        None => write(context, desired(), wrap, Action::Create),
    }
}

/// Deletes a pod that mounts the data volume, or the object that it belongs to, unless the claim is being deleted: it is lost as soon
/// as no pod uses it.
pub(super) fn delete_pod(context: NodeContext<'_>, deletion: Deletion) -> StepOutcome {
    let claim = context.observed.claim.as_deref();
    match (claim, claim::termination(claim)) {
        (Some(claim), Some(why)) => {
            StepOutcome::wait(kind_of::<PersistentVolumeClaim>(), name_of(claim), why)
        }
        _ => delete(context, deletion),
    }
}

/// Deletes an object, unless its deletion failed in this reconcile.
pub(super) fn delete(context: NodeContext<'_>, deletion: Deletion) -> StepOutcome {
    let kind = deletion.kind();
    match context.observed.write_failures.get(kind) {
        None => StepOutcome::Act(Action::Delete(deletion)),
        Some(WriteFailure::Rejected(why)) => {
            StepOutcome::Fatal(format!("the API server rejected the deletion of the {kind}: {why}"))
        }
        Some(WriteFailure::Conflict(why) | WriteFailure::Transient(why)) => {
            StepOutcome::wait(kind, context.name(), why)
        }
    }
}

/// Writes an object, unless it cannot be rendered, or its write failed in this reconcile.
fn write<K: Resource>(
    context: NodeContext<'_>,
    desired: Result<K, RenderError>,
    wrap: fn(Box<K>) -> Object,
    action: fn(Object) -> Action,
) -> StepOutcome {
    let desired = match desired {
        Ok(desired) => desired,
        Err(error) => return StepOutcome::Fatal(error.to_string()),
    };
    let name = name_of(&desired).to_owned();
    let object = wrap(Box::new(desired));
    let kind = object.kind();
    match context.observed.write_failures.get(kind) {
        None => StepOutcome::Act(action(object)),
        Some(WriteFailure::Rejected(why)) => {
            StepOutcome::Fatal(format!("the API server rejected the {kind}: {why}"))
        }
        Some(WriteFailure::Conflict(why) | WriteFailure::Transient(why)) => {
            StepOutcome::wait(kind, name, why)
        }
    }
}

/// An object of another owner is neither changed nor adopted.
fn not_owned<K: Resource<DynamicType = ()>>(live: &K) -> StepOutcome {
    let (kind, name) = (kind_of::<K>(), name_of(live));
    StepOutcome::Failed(format!(
        "{kind} {name} is not owned by this SeiNode: delete it, or create the node under another name"
    ))
}

fn has_owner<K: Resource>(object: &K) -> bool {
    !object.meta().owner_references.as_deref().unwrap_or_default().is_empty()
}
