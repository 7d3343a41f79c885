//! What tests want to see played.

use std::collections::HashMap;
use std::time::Duration;

/// How an image is broken: what a container made from it waits with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// It could not be pulled just now, for this reason.
    ErrImagePull(String),
    /// It could not be pulled for a while, for this reason.
    ImagePullBackOff(String),
    /// It ends with an error again and again; this is what is said of it.
    CrashLoopBackOff(String),
    /// Its configuration is wrong, for this reason.
    CreateContainerConfigError(String),
}

impl Breakage {
    /// Reason and message of the waiting container.
    pub(super) fn waiting(&self) -> (&'static str, &str) {
        match self {
            Self::ErrImagePull(message) => ("ErrImagePull", message),
            Self::ImagePullBackOff(message) => ("ImagePullBackOff", message),
            Self::CrashLoopBackOff(message) => ("CrashLoopBackOff", message),
            Self::CreateContainerConfigError(message) => ("CreateContainerConfigError", message),
        }
    }
}

/// What becomes of claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claims {
    /// They are bound at once, in their status only. That holds for claims of a storage class that does not exist; of
    /// others the real controller says again that they are pending.
    #[default]
    Bound,
    /// They are bound at once to a volume that is made for each.
    BoundToVolume,
    /// They stay pending.
    Pending,
}

/// Everything that can be directed.
#[derive(Debug, Default)]
pub(super) struct Direction {
    pub(super) broken_images: HashMap<String, Breakage>,
    /// No pod gets beyond the creation of its containers.
    pub(super) held: bool,
    pub(super) start_after: Duration,
    pub(super) remove_after: Duration,
    pub(super) bootstrap_takes: Duration,
    pub(super) bootstrap_exit_code: i32,
    pub(super) claims: Claims,
}
