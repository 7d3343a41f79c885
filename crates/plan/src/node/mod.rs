//! Node decisions: drift, plans, step evaluation, conditions and events.

mod action;
mod adoption;
mod advance;
mod applied_spec;
mod chain;
mod check;
mod compose;
mod conditions;
mod context;
pub(crate) mod deadline;
mod decide;
mod drift;
mod dry_run;
mod events;
mod exclusive;
mod interruption;
mod isolation;
mod issued_secret;
mod kind;
mod observed;
mod pace;
mod render_cache;
mod repair;
mod required_observations;
mod retention;
mod settings;
mod status_change;
mod step;
mod stored_plan;
mod task;
mod tls;
mod unapplied_fields;
mod volume;

pub use action::{Action, ClaimOwnership, Deletion, Object, SecretOwnership, Transport};
pub use chain::ChainProgress;
pub use check::certificate_expiry;
pub use compose::SUBMITTED_TASKS;
pub use deadline::elapsed;
pub use decide::{Decision, decide};
pub use drift::{scheduling, seid_resources, sidecar_image, sidecar_port, sidecar_resources};
pub use events::transition_events;
pub use exclusive::{Candidates, ExclusiveObject, ExclusiveUse, ExclusiveUser, exclusive_user};
pub use isolation::sidecar_isolation;
pub use kind::NodeKind;
pub use observed::{
    ChainObservation, DryRunObservation, Health, KeyPair, Observed, ObservedContainer,
    ObservedContainerStatus, ObservedPod, ObservedPodCondition, ObservedPodSpec, ObservedPodStatus,
    ObservedSecret, ObservedStatefulSet, ObservedVolume, SecretObservation, ServingObservation,
    SidecarObservation, Submission, TaskObservation, UpdateSlot, VolumeObservation, WriteFailure,
};
pub use pace::{DisruptionLimit, PacedNode, Queued, grant};
pub use render_cache::RenderCache;
pub use required_observations::{RequiredObservations, required_observations};
pub use retention::{deletion_event, is_retained};
pub use settings::{external_address, settings};
pub use tls::{DesiredTls, Issuer, desired_tls};
