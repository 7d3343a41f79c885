//! Nodes: what is to be done about one, and what is to be said of it.

mod action;
mod advance;
mod check;
mod compose;
mod conditions;
mod decide;
mod drift;
mod kind;
mod memo;
mod mirrors;
mod needs;
mod notes;
mod observe;
mod repair;
mod seen;
mod seen_pod;
mod seen_set;
mod settings;
mod step;
mod task;
mod unapplied;
mod world;

pub use action::{Action, Doomed, Object, Transport};
pub use decide::{Decision, decide};
pub use drift::{
    Config, Drift, Parts, find as find_drift, own_labels, sidecar_image, sidecar_port, sidecar_resources, tls,
};
pub use kind::Kind;
pub use memo::Memo;
pub use needs::{Needs, needs};
pub use notes::notes;
pub use seen_pod::{
    SeenContainer, SeenContainerStatus, SeenPod, SeenPodCondition, SeenPodSpec, SeenPodStatus,
};
pub use seen_set::SeenSet;
pub use settings::{external_address, settings};
pub use task::{Step, backoff, id as task_id};
pub use world::{Health, Refusal, SecretSight, Served, SidecarSight, Submission, TaskSight, World};
