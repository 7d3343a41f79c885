//! Entries of the journal.

use serde::{Deserialize, Serialize};

use super::event::EventType;
use super::matcher::RequestMatcher;
use super::request::RequestInfo;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Entry {
    /// A request: written when its outcome is known, for a watch when it starts.
    Request(RequestEntry),
    /// A watch event. One that is withheld and delivered later has two entries.
    Event(EventEntry),
    /// The end of a watch.
    End(WatchEndEntry),
    /// A fault that was injected or removed.
    Fault(FaultEntry),
}

/// A request and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEntry {
    /// Number, in order of arrival.
    pub number: u64,
    /// Time of arrival, in microseconds since the start of the proxy.
    pub at_us: u64,
    /// The parsed request.
    #[serde(flatten)]
    pub info: RequestInfo,
    /// The object in its body; `None` if the body was not read, is empty, or is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<WrittenObject>,
    /// Status code sent to the client; `None` if no response was sent.
    pub code: Option<u16>,
    /// Status code of the API server; `None` if the request was not forwarded or not answered.
    pub upstream: Option<u16>,
    /// Faults that affected it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// An error that no fault explains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Microseconds until the outcome was known.
    pub latency_us: u64,
}

/// Object and preconditions of a write. Nothing else of a body is ever recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenObject {
    /// Object name; empty if not in the body.
    pub name: String,
    /// UID precondition; empty for none.
    pub uid: String,
    /// Resource version precondition; empty for none.
    pub resource_version: String,
}

impl WrittenObject {
    /// Parses object metadata or delete preconditions.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            metadata: Option<WrittenObject>,
            preconditions: Option<WrittenObject>,
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        body.preconditions.or(body.metadata)
    }
}

/// What happened to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Delivered to the client.
    Delivered,
    /// Withheld: by a frozen view until it is lifted, by a black hole forever.
    Withheld,
    /// Never delivered.
    Dropped,
}

/// A watch event, without the content of its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventEntry {
    /// Request number of the watch.
    pub watch: u64,
    /// Time of arrival, or of delivery after it was withheld, in microseconds since the start of the proxy.
    pub at_us: u64,
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Object kind.
    pub kind: String,
    /// Object namespace; empty for none.
    pub namespace: String,
    /// Object name; empty for a bookmark.
    pub name: String,
    /// Object resource version; zero for an error.
    #[serde(rename = "resourceVersion")]
    pub revision: u64,
    /// What happened to it.
    pub fate: Fate,
}

/// The end of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEndEntry {
    /// Request number of the watch.
    pub watch: u64,
    /// Time, in microseconds since the start of the proxy.
    pub at_us: u64,
    /// How it ended.
    pub end: WatchEndCause,
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchEndCause {
    /// The client disconnected, or the proxy stopped.
    Client,
    /// The API server closed it, as it does after a timeout.
    Server,
    /// The connection to the API server broke, so the client connection was reset.
    Broken,
    /// A fault reset it.
    Reset,
    /// A fault ended it with an error event.
    Error,
}

/// A fault that was injected or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEntry {
    /// Time, in microseconds since the start of the proxy.
    pub at_us: u64,
    /// Number of the fault, in order of injection.
    pub number: u64,
    /// Description of the fault.
    pub fault: String,
    /// Requests it applies to.
    pub matching: RequestMatcher,
    /// True if it was injected, false if it was removed.
    pub in_force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_object_and_preconditions_are_recorded() {
        let object =
            br#"{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":"y"}},"data":{"k":"hunter2"}}"#;
        let written = WrittenObject::parse(object).unwrap();
        assert_eq!(
            (written.name.as_str(), written.uid.as_str(), written.resource_version.as_str()),
            ("a", "", "7")
        );
        let deletion = br#"{"kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"8"}}"#;
        let written = WrittenObject::parse(deletion).unwrap();
        assert_eq!(
            (written.name.as_str(), written.uid.as_str(), written.resource_version.as_str()),
            ("", "u", "8")
        );
        for other in ["", "k8s\0protobuf", "[{\"op\":\"remove\"}]", "{}"] {
            assert_eq!(WrittenObject::parse(other.as_bytes()), None, "{other:?}");
        }
    }
}
