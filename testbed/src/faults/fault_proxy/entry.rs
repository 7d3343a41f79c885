//! The lines of a journal.

use serde::{Deserialize, Serialize};

use super::event::EventType;
use super::matching::Matching;
use super::request::Asked;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Entry {
    /// A request, when its fate is known; a watch, when it begins.
    Request(RequestEntry),
    /// An event of a watch. One that is withheld and later delivered has two lines.
    Event(EventEntry),
    /// The end of a watch.
    End(EndEntry),
    /// A fault that came into force or went out of it.
    Fault(FaultEntry),
}

/// A request and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEntry {
    /// Its number, in the order in which requests came.
    pub number: u64,
    /// When it came: microseconds after the proxy's start.
    pub at_us: u64,
    /// What was asked, by whom.
    #[serde(flatten)]
    pub asked: Asked,
    /// What its body says of the object it is about; none when it was not read, has no body, or is not in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// The code that the client was given; none when it was given no answer.
    pub code: Option<u16>,
    /// The code that the API server gave; none when it was not asked, or did not answer.
    pub upstream: Option<u16>,
    /// The faults that had a part in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// What went wrong that no fault explains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Microseconds until its fate was known.
    pub latency_us: u64,
}

/// Which object a write is about, and on which condition: everything of a body that is ever recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Written {
    /// The object's name; empty when the body does not say it.
    pub name: String,
    /// The write is done only to the object with this uid; empty for any.
    pub uid: String,
    /// The write is done only to this version of the object; empty for any.
    pub resource_version: String,
}

impl Written {
    /// Reads the metadata of an object, or the preconditions of a deletion.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            metadata: Option<Written>,
            preconditions: Option<Written>,
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        body.preconditions.or(body.metadata)
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Given to the client.
    Delivered,
    /// Kept back: by a frozen view until it thaws, by a black hole for ever.
    Withheld,
    /// Never given to the client.
    Dropped,
}

/// An event of a watch, without its object's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventEntry {
    /// The number of the watch's request.
    pub watch: u64,
    /// When it came, or when it was delivered after having been withheld: microseconds after the proxy's start.
    pub at_us: u64,
    /// What it says.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Kind of its object.
    pub kind: String,
    /// Namespace of its object; empty for none.
    pub namespace: String,
    /// Name of its object; empty for a bookmark.
    pub name: String,
    /// Resource version of its object; zero for an error.
    #[serde(rename = "resourceVersion")]
    pub revision: u64,
    /// What became of it.
    pub fate: Fate,
}

/// The end of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndEntry {
    /// The number of the watch's request.
    pub watch: u64,
    /// When: microseconds after the proxy's start.
    pub at_us: u64,
    /// Who ended it, and how.
    pub end: End,
}

/// Who ends a watch, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The client went away, or the proxy ended.
    Client,
    /// The API server ended it, as it does after a time.
    Server,
    /// The way to the API server broke, and so did the way to the client.
    Broken,
    /// A fault reset it.
    Reset,
    /// A fault ended it with an error event.
    Error,
}

/// A fault that came into force or went out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEntry {
    /// When: microseconds after the proxy's start.
    pub at_us: u64,
    /// The fault's number, in the order in which they were injected.
    pub number: u64,
    /// What it does.
    pub fault: String,
    /// To whom.
    pub matching: Matching,
    /// True when it came into force, false when it was lifted.
    pub in_force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_body_only_the_object_and_the_conditions_are_read() {
        let object =
            br#"{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":"y"}},"data":{"k":"hunter2"}}"#;
        let written = Written::read(object).unwrap();
        assert_eq!(
            (written.name.as_str(), written.uid.as_str(), written.resource_version.as_str()),
            ("a", "", "7")
        );
        let deletion = br#"{"kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"8"}}"#;
        let written = Written::read(deletion).unwrap();
        assert_eq!(
            (written.name.as_str(), written.uid.as_str(), written.resource_version.as_str()),
            ("", "u", "8")
        );
        for other in ["", "k8s\0protobuf", "[{\"op\":\"remove\"}]", "{}"] {
            assert_eq!(Written::read(other.as_bytes()), None, "{other:?}");
        }
    }
}
