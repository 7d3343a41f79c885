//! The size of the data volume. A larger size is applied to the claim of a node at any time, without a plan and without a new pod:
//! a full volume may be why a plan does not progress. Kubernetes never shrinks a volume.

use api::condition::StorageReady;
use api::names::object;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::api::resource;

use super::action::{Action, Object};
use super::check::claim;
use super::context::{NodeContext, is_terminating, kind_of, name_of};
use super::observed::WriteFailure;
use super::retention;
use crate::quantity::{Quantity, canonical};
use crate::render;

/// The resource name of a volume's size.
const STORAGE: &str = "storage";

/// How the data volume relates to `spec.storage.size`.
pub(super) struct Assessment {
    /// The reason of the condition.
    pub(super) reason: StorageReady,
    /// What is known, and what to do.
    pub(super) message: String,
    /// The size that the claim must be changed to.
    resize_to: Option<String>,
}

impl Assessment {
    fn new(reason: StorageReady, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), resize_to: None }
    }
}

/// Assesses the data volume of a node.
pub(super) fn assess(context: NodeContext<'_>) -> Assessment {
    let NodeContext { node, observed, .. } = context;
    if let Some(name) = claim::imported(node) {
        let message = format!("PersistentVolumeClaim {name} is imported; its size is not managed");
        return Assessment::new(StorageReady::VolumeImported, message);
    }
    let Some(claim) = observed.claim.as_deref() else {
        let name = object::data_claim(context.name());
        let message = format!("PersistentVolumeClaim {name} does not exist");
        return Assessment::new(StorageReady::VolumePending, message);
    };
    let Some(request) = Size::requested(claim) else {
        return Assessment::new(StorageReady::VolumePending, format!("{} requests no size", describe(claim)));
    };
    match Size::desired(context) {
        Some(desired) if desired.value > request.value => expansion(context, claim, &desired, &request),
        Some(desired) if desired.value < request.value => reduction(context, claim, &desired, &request),
        // Whether the claim is bound does not matter then, and is not worth a status write.
        None if !is_expanding(claim, &request) => {
            let message =
                format!("{} requests {}; spec.storage.size is not set", describe(claim), request.text);
            Assessment::new(StorageReady::VolumeSized, message)
        }
        _ => progress(context, claim, &request),
    }
}

impl Assessment {
    /// Returns the action that resizes the claim, if it must be resized.
    pub(super) fn resize(&self, context: NodeContext<'_>) -> Option<Action> {
        let claim = context.observed.claim.as_deref()?;
        let claim = render::resized_claim(claim, self.resize_to.as_deref()?).ok()?;
        Some(Action::Apply(Object::Claim(Box::new(claim))))
    }

    /// Returns what is wrong with `spec.storage.size`, if anything.
    pub(super) fn problem(self) -> Option<String> {
        (self.reason == StorageReady::ShrinkRefused).then_some(self.message)
    }
}

/// Returns whether the claim requests the size that the spec asks for.
pub(super) fn is_in_sync(context: NodeContext<'_>) -> bool {
    let request = context.observed.claim.as_deref().and_then(Size::requested);
    match (Size::desired(context), request) {
        (Some(desired), Some(request)) => desired.value == request.value,
        _ => true,
    }
}

/// Returns the change of the size that a paused node would make.
pub(super) fn pending(context: NodeContext<'_>) -> Option<String> {
    let request = Size::requested(context.observed.claim.as_deref()?)?;
    let desired = Size::desired(context).filter(|desired| desired.value != request.value)?;
    Some(format!("storage size {} instead of {}", desired.text, request.text))
}

/// A size, as text and as a number.
struct Size {
    text: String,
    value: Quantity,
}

impl Size {
    fn parse(quantity: &resource::Quantity) -> Option<Self> {
        Some(Self { text: quantity.0.clone(), value: Quantity::parse(&quantity.0)? })
    }

    /// Returns the size in the spec. The default of the platform does not count: it applies only when a claim is created.
    fn desired(context: NodeContext<'_>) -> Option<Self> {
        if claim::imported(context.node).is_some() {
            return None;
        }
        Self::parse(context.node.spec.storage.as_ref()?.size.as_ref()?)
    }

    fn requested(claim: &PersistentVolumeClaim) -> Option<Self> {
        Self::parse(claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get(STORAGE)?)
    }

    fn capacity(claim: &PersistentVolumeClaim) -> Option<Self> {
        Self::parse(claim.status.as_ref()?.capacity.as_ref()?.get(STORAGE)?)
    }
}

fn expansion(
    context: NodeContext<'_>,
    claim: &PersistentVolumeClaim,
    desired: &Size,
    request: &Size,
) -> Assessment {
    let change =
        format!("spec.storage.size is {} and {} requests {}", desired.text, describe(claim), request.text);
    let pending = |why: &str| Assessment::new(StorageReady::ExpansionPending, format!("{change}: {why}"));
    if is_terminating(claim) {
        return pending("it is being deleted and cannot be resized");
    }
    if !retention::is_own(context.node, claim) {
        return pending("it is not owned by this SeiNode and is not changed");
    }
    if !is_bound(claim) {
        return pending("it is resized as soon as it is bound");
    }
    write(context, change, desired)
}

/// Less than requested is a shrink, unless the volume has never grown to what was requested: an expansion that the driver cannot
/// complete may be withdrawn.
fn reduction(
    context: NodeContext<'_>,
    claim: &PersistentVolumeClaim,
    desired: &Size,
    request: &Size,
) -> Assessment {
    let capacity = Size::capacity(claim).filter(|capacity| capacity.value < request.value);
    match capacity {
        Some(capacity) if desired.value >= capacity.value && retention::is_own(context.node, claim) => {
            let change = format!(
                "spec.storage.size is {}, {} requests {} and has {}",
                desired.text,
                describe(claim),
                request.text,
                capacity.text
            );
            write(context, change, desired)
        }
        capacity => {
            let message = format!(
                "spec.storage.size: {} is less than the {} that {} requests, and a volume cannot shrink: set it to at least {}",
                desired.text,
                request.text,
                describe(claim),
                capacity.as_ref().map_or(&request.text, |capacity| &capacity.text)
            );
            Assessment::new(StorageReady::ShrinkRefused, message)
        }
    }
}

/// Changes the claim, unless that has failed in this reconcile.
fn write(context: NodeContext<'_>, change: String, desired: &Size) -> Assessment {
    let refused = |why: &str| Assessment::new(StorageReady::ExpansionRefused, format!("{change}: {why}"));
    match context.observed.write_failures.get(kind_of::<PersistentVolumeClaim>()) {
        Some(WriteFailure::Rejected(why) | WriteFailure::Conflict(why) | WriteFailure::Transient(why)) => {
            refused(&format!("the API server refuses the change: {why}"))
        }
        None => match canonical(&desired.text) {
            Some(size) => {
                Assessment { resize_to: Some(size), ..Assessment::new(StorageReady::Resizing, change) }
            }
            None => refused("no volume can have this size: set a smaller one"),
        },
    }
}

/// Reports how far the storage driver is.
fn progress(context: NodeContext<'_>, claim: &PersistentVolumeClaim, request: &Size) -> Assessment {
    let name = describe(claim);
    if !is_bound(claim) {
        return Assessment::new(StorageReady::VolumePending, format!("{name} is not bound"));
    }
    let Some(capacity) = Size::capacity(claim).filter(|capacity| capacity.value < request.value) else {
        return Assessment::new(
            StorageReady::VolumeSized,
            format!("{name} has the requested {}", request.text),
        );
    };
    let status = claim.status.clone().unwrap_or_default();
    let change = format!("{name} has {} and requests {}", capacity.text, request.text);
    if let Some(why) = failure(&status) {
        return Assessment::new(StorageReady::ExpansionFailed, format!("{change}: {why}"));
    }
    if condition(&status, "FileSystemResizePending").is_some() {
        let message = format!(
            "{change}: the kubelet resizes the file system while the pod runs; if this does not end, the storage driver can do it \
             only on a restart: run `kubectl delete pod {}`",
            object::pod(context.name())
        );
        return Assessment::new(StorageReady::FileSystemResizePending, message);
    }
    Assessment::new(StorageReady::Resizing, format!("{change}: the storage driver expands the volume"))
}

/// Returns why the storage driver cannot expand a volume, as it reports it.
fn failure(status: &PersistentVolumeClaimStatus) -> Option<String> {
    let error = ["ControllerResizeError", "NodeResizeError"].iter().find_map(|name| condition(status, name));
    if let Some(error) = error {
        return Some(error);
    }
    let state = status.allocated_resource_statuses.as_ref()?.get(STORAGE)?;
    let is_failed = state.ends_with("Infeasible") || state.ends_with("Failed");
    is_failed.then(|| format!("the storage driver reports {state}"))
}

/// Returns the message of a condition that is true.
fn condition(status: &PersistentVolumeClaimStatus, name: &str) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == name && condition.status == "True")?;
    Some(found.message.clone().unwrap_or_else(|| name.to_owned()))
}

/// Returns whether a volume has less than its claim requests.
fn is_expanding(claim: &PersistentVolumeClaim, request: &Size) -> bool {
    Size::capacity(claim).is_some_and(|capacity| capacity.value < request.value)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

fn describe(claim: &PersistentVolumeClaim) -> String {
    format!("{} {}", kind_of::<PersistentVolumeClaim>(), name_of(claim))
}
