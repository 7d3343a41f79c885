//! Node decisions: drift, plans, step evaluation, conditions and events.

mod action;
mod advance;
mod check;
mod compose;
mod conditions;
mod context;
mod decide;
mod drift;
mod events;
mod kind;
mod observed;
mod render_cache;
mod repair;
mod required_observations;
mod settings;
mod status_change;
mod step;
mod stored_plan;
mod task;
mod tls;
mod unapplied_fields;

pub use action::{Action, Deletion, Object, Transport};
pub use decide::{Decision, decide};
pub use drift::{sidecar_image, sidecar_port, sidecar_resources};
pub use events::transition_events;
pub use kind::NodeKind;
pub use observed::{
    Health, Observed, ObservedContainer, ObservedContainerStatus, ObservedPod, ObservedPodCondition,
    ObservedPodSpec, ObservedPodStatus, ObservedStatefulSet, SecretObservation, ServingObservation,
    SidecarObservation, Submission, TaskObservation, WriteFailure,
};
pub use render_cache::RenderCache;
pub use required_observations::{RequiredObservations, required_observations};
pub use settings::{external_address, settings};
pub use tls::{DesiredTls, Issuer, desired_tls};
