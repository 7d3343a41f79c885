//! Settings of the fake kubelet that tests change while it runs.

use std::collections::HashMap;
use std::time::Duration;

/// Waiting state of a container made from a broken image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerFailure {
    /// The image could not be pulled; holds the message.
    ErrImagePull(String),
    /// Pulling the image keeps failing; holds the message.
    ImagePullBackOff(String),
    /// The container keeps exiting with an error; holds the message.
    CrashLoopBackOff(String),
    /// The container configuration is invalid; holds the message.
    CreateContainerConfigError(String),
}

impl ContainerFailure {
    /// Returns reason and message of the waiting container.
    pub(super) fn waiting(&self) -> (&'static str, &str) {
        match self {
            Self::ErrImagePull(message) => ("ErrImagePull", message),
            Self::ImagePullBackOff(message) => ("ImagePullBackOff", message),
            Self::CrashLoopBackOff(message) => ("CrashLoopBackOff", message),
            Self::CreateContainerConfigError(message) => ("CreateContainerConfigError", message),
        }
    }
}

/// What happens to unbound claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimPolicy {
    /// Bound at once, in the status only. Lasts only for claims of a storage class that does not exist:
    /// kube-controller-manager resets all others to Pending.
    #[default]
    Bound,
    /// Bound at once to a volume that is created for each claim.
    BoundToVolume,
    /// Left Pending.
    Pending,
}

/// All settings.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) broken_images: HashMap<String, ContainerFailure>,
    /// No pod gets past container creation.
    pub(super) held: bool,
    pub(super) start_after: Duration,
    pub(super) remove_after: Duration,
    pub(super) bootstrap_duration: Duration,
    pub(super) bootstrap_exit_code: i32,
    pub(super) claims: ClaimPolicy,
}
