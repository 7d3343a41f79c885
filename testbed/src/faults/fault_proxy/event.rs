//! The events of a watch: one JSON document per line, cut into pieces as the network likes.

use std::collections::VecDeque;

use hyper::body::Bytes;
use serde::{Deserialize, Serialize};

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// An object has come into view.
    Added,
    /// An object has changed.
    Modified,
    /// An object has left the view.
    Deleted,
    /// Nothing; everything up to a resource version was told.
    Bookmark,
    /// The watch cannot go on.
    Error,
}

/// One event, with what the proxy has to know of its object.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) event_type: EventType,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Zero for an error, which has none.
    pub(super) revision: u64,
    /// The line as it came.
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
    /// Reads a line. The error names no content: it may be a secret's.
    pub(super) fn read(line: Bytes) -> Result<Self, String> {
        let read: Line = serde_json::from_slice(&line).map_err(|error| {
            format!("line {} column {} of a watch event is not understood", error.line(), error.column())
        })?;
        let metadata = read.object.metadata;
        let revision = match metadata.resource_version.as_str() {
            "" => 0,
            text => text.parse().map_err(|_| format!("a watch event has the resource version {text:?}"))?,
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

/// Puts lines together again.
#[derive(Debug, Default)]
pub(super) struct Lines {
    whole: VecDeque<Bytes>,
    partial: Vec<u8>,
}

impl Lines {
    /// Takes the next piece.
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&piece[..=end]);
            let line = std::mem::take(&mut self.partial);
            if line.len() > 1 {
                self.whole.push_back(Bytes::from(line));
            }
            piece = &piece[end + 1..];
        }
        self.partial.extend_from_slice(piece);
    }

    /// The next whole line, with its end.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        self.whole.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDED: &str = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{"x":"y"}},"data":{"k":"é"}}}"#;
    const BOOKMARK: &str =
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}"#;

    #[test]
    fn lines_are_whole_wherever_the_network_cuts_them() {
        let text = format!("{ADDED}\n{BOOKMARK}\n{ADDED}\n");
        let expected: Vec<String> = text.split_inclusive('\n').map(String::from).collect();
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next() {
                    seen.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(seen, expected, "pieces of {size} bytes");
        }
    }

    #[test]
    fn a_line_without_its_end_is_not_given_out() {
        let mut lines = Lines::default();
        lines.push(ADDED.as_bytes());
        assert!(lines.next().is_none());
        lines.push(b"\n\n");
        assert!(lines.next().is_some());
        assert!(lines.next().is_none(), "an empty line is no event");
    }

    #[test]
    fn an_event_is_read() {
        let event = Event::read(Bytes::from_static(ADDED.as_bytes())).unwrap();
        assert_eq!(event.event_type, EventType::Added);
        assert_eq!(
            (event.kind.as_str(), event.namespace.as_str(), event.name.as_str(), event.revision),
            ("ConfigMap", "n", "a", 7)
        );
        let bookmark = Event::read(Bytes::from_static(BOOKMARK.as_bytes())).unwrap();
        assert_eq!(
            (bookmark.event_type, bookmark.name.as_str(), bookmark.revision),
            (EventType::Bookmark, "", 9)
        );
        let error =
            Bytes::from_static(br#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}"#);
        assert_eq!(Event::read(error).unwrap().revision, 0);
    }

    #[test]
    fn what_is_not_understood_is_not_quoted() {
        let error = Event::read(Bytes::from_static(br#"{"type":"ADDED","object":"hunter2"}"#)).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
