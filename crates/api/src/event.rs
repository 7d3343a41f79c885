//! Events to be recorded on an object.

use std::borrow::Cow;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Informational.
    Normal,
    /// Something may need attention.
    Warning,
}

impl EventType {
    /// Returns the value in the Kubernetes API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Type of the event.
    pub event_type: EventType,
    /// CamelCase reason.
    pub reason: Cow<'static, str>,
    /// CamelCase action that the controller took.
    pub action: &'static str,
    /// Human-readable message.
    pub message: String,
}
