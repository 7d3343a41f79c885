//! What is worth an event.

use std::borrow::Cow;

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl Tone {
    /// The word that Kubernetes has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether it is good news.
    pub tone: Tone,
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// What was done about it, in one word.
    pub action: &'static str,
    /// In words for people.
    pub message: String,
}
