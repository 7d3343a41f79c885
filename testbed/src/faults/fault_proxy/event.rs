//! Watch events: one JSON document per line, in chunks of any size.

use std::collections::VecDeque;

use hyper::body::Bytes;
use serde::{Deserialize, Serialize};

/// Type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// The object was created or now matches the selector.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted or no longer matches the selector.
    Deleted,
    /// No object; all events up to this resource version were sent.
    Bookmark,
    /// The watch failed.
    Error,
}

/// One event, with the object metadata the proxy needs.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) event_type: EventType,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Zero for an error event.
    pub(super) revision: u64,
    /// The raw line.
    pub(super) line: Bytes,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    event_type: EventType,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

impl Event {
    /// Parses a line. The error never quotes content, which may be secret.
    pub(super) fn parse(line: Bytes) -> Result<Self, String> {
        let read: Line = serde_json::from_slice(&line).map_err(|error| {
            format!("invalid watch event at line {} column {}", error.line(), error.column())
        })?;
        let metadata = read.object.metadata;
        let revision = match metadata.resource_version.as_str() {
            "" => 0,
            text => {
                text.parse().map_err(|_| format!("invalid resource version {text:?} in a watch event"))?
            }
        };
        Ok(Self {
            event_type: read.event_type,
            kind: read.object.kind,
            namespace: metadata.namespace,
            name: metadata.name,
            revision,
            line,
        })
    }
}

/// Reassembles lines from chunks.
#[derive(Debug, Default)]
pub(super) struct Lines {
    complete: VecDeque<Bytes>,
    partial: Vec<u8>,
}

impl Lines {
    /// Adds a chunk.
    pub(super) fn push(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&chunk[..=end]);
            let line = std::mem::take(&mut self.partial);
            if line.len() > 1 {
                self.complete.push_back(Bytes::from(line));
            }
            chunk = &chunk[end + 1..];
        }
        self.partial.extend_from_slice(chunk);
    }

    /// Returns the next complete line, including the newline.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        self.complete.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDED: &str = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{"x":"y"}},"data":{"k":"é"}}}"#;
    const BOOKMARK: &str =
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}"#;

    #[test]
    fn lines_are_reassembled_from_any_chunks() {
        let text = format!("{ADDED}\n{BOOKMARK}\n{ADDED}\n");
        let expected: Vec<String> = text.split_inclusive('\n').map(String::from).collect();
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut received = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                lines.push(chunk);
                while let Some(line) = lines.next() {
                    received.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(received, expected, "chunks of {size} bytes");
        }
    }

    #[test]
    fn partial_line_is_not_returned() {
        let mut lines = Lines::default();
        lines.push(ADDED.as_bytes());
        assert!(lines.next().is_none());
        lines.push(b"\n\n");
        assert!(lines.next().is_some());
        assert!(lines.next().is_none(), "an empty line is not an event");
    }

    #[test]
    fn event_is_parsed() {
        let event = Event::parse(Bytes::from_static(ADDED.as_bytes())).unwrap();
        assert_eq!(event.event_type, EventType::Added);
        assert_eq!(
            (event.kind.as_str(), event.namespace.as_str(), event.name.as_str(), event.revision),
            ("ConfigMap", "n", "a", 7)
        );
        let bookmark = Event::parse(Bytes::from_static(BOOKMARK.as_bytes())).unwrap();
        assert_eq!(
            (bookmark.event_type, bookmark.name.as_str(), bookmark.revision),
            (EventType::Bookmark, "", 9)
        );
        let error =
            Bytes::from_static(br#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}"#);
        assert_eq!(Event::parse(error).unwrap().revision, 0);
    }

    #[test]
    fn parse_error_does_not_quote_content() {
        let error = Event::parse(Bytes::from_static(br#"{"type":"ADDED","object":"hunter2"}"#)).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
