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

pub use action::{Action, Doomed, Object, Transport};
pub use decide::{Decision, decide};
pub use drift::{sidecar_image, sidecar_port, sidecar_resources};
pub use events::notes;
pub use kind::Kind;
pub use observed::{
    Health, ObservedContainer, ObservedContainerStatus, ObservedPodCondition, ObservedPodSpec,
    ObservedPodStatus, Refusal, SecretSight, SeenPod, SeenSet, Served, SidecarObservation, Submission,
    TaskSight, World,
};
pub use render_cache::Memo;
pub use required_observations::{Needs, needs};
pub use settings::{external_address, settings};
pub use tls::{DesiredTls, Issuer, tls};
