//! Journal of the fault proxy: one JSON document per line, written as things happen, so that a run can be analyzed
//! later from this file alone. Bodies and credentials are never recorded, except which object a body is about.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub use super::entry::{
    Entry, EventEntry, Fate, FaultEntry, RequestEntry, WatchEndCause, WatchEndEntry, WrittenObject,
};
use super::event::Event;
use super::matcher::RequestMatcher;
use super::request::RequestInfo;
use crate::error::{Error, IoContext, Result};
use crate::sync::lock;

/// The journal of one proxy.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
    writer: Arc<Writer>,
}

#[derive(Debug)]
struct Writer {
    file: Mutex<File>,
    begin: Instant,
    last_number: AtomicU64,
    pending: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Journal {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).context(|| format!("creating {}", path.display()))?;
        let writer = Writer {
            file: Mutex::new(file),
            begin: Instant::now(),
            last_number: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            failure: Mutex::new(None),
        };
        Ok(Self { path, writer: Arc::new(writer) })
    }

    /// Returns the file path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all entries. Fails if an entry could not be written, because an incomplete journal proves nothing.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        self.check()?;
        read(&self.path)
    }

    /// Returns the requests that match `wanted`, in the order of their outcomes.
    pub fn requests(&self, wanted: impl Fn(&RequestEntry) -> bool) -> Result<Vec<RequestEntry>> {
        let requests = self.entries()?.into_iter().filter_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            _ => None,
        });
        Ok(requests.filter(wanted).collect())
    }

    /// Returns the events that match `wanted`, in order.
    pub fn events(&self, wanted: impl Fn(&EventEntry) -> bool) -> Result<Vec<EventEntry>> {
        let events = self.entries()?.into_iter().filter_map(|entry| match entry {
            Entry::Event(event) => Some(event),
            _ => None,
        });
        Ok(events.filter(wanted).collect())
    }

    /// Returns the number of requests without an outcome yet: forwarded, delayed, or held.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.writer.pending.load(Ordering::SeqCst)
    }

    /// Fails if an entry could not be written or the proxy itself failed.
    pub(super) fn check(&self) -> Result<()> {
        match self.failure().as_ref() {
            None => Ok(()),
            Some(failure) => Err(Error::Other(format!("fault proxy failed: {failure}"))),
        }
    }

    /// Stores a failure of the proxy itself; only the first is kept, because it explains the others.
    pub(super) fn fail(&self, failure: impl Into<String>) {
        self.failure().get_or_insert_with(|| failure.into());
    }

    /// Starts the entry of a request.
    pub(super) fn begin(&self, info: RequestInfo) -> PendingEntry {
        let number = self.writer.last_number.fetch_add(1, Ordering::SeqCst) + 1;
        let entry = RequestEntry {
            number,
            at_us: self.now(),
            info,
            written: None,
            code: None,
            upstream: None,
            faults: Vec::new(),
            failure: None,
            latency_us: 0,
        };
        self.writer.pending.fetch_add(1, Ordering::SeqCst);
        PendingEntry { journal: self.clone(), entry: Some(entry) }
    }

    pub(super) fn event(&self, watch: u64, event: &Event, fate: Fate) {
        self.write(&Entry::Event(EventEntry {
            watch,
            at_us: self.now(),
            event_type: event.event_type,
            kind: event.kind.clone(),
            namespace: event.namespace.clone(),
            name: event.name.clone(),
            revision: event.revision,
            fate,
        }));
    }

    pub(super) fn end(&self, watch: u64, end: WatchEndCause) {
        self.write(&Entry::End(WatchEndEntry { watch, at_us: self.now(), end }));
    }

    pub(super) fn fault(&self, number: u64, fault: String, matching: &RequestMatcher, in_force: bool) {
        let matching = matching.clone();
        self.write(&Entry::Fault(FaultEntry { at_us: self.now(), number, fault, matching, in_force }));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.writer.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Writes one line with a single unbuffered write: the process may be killed at any moment.
    fn write(&self, entry: &Entry) {
        let written = serde_json::to_vec(entry).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            lock(&self.writer.file).write_all(&line)
        });
        if let Err(error) = written {
            self.fail(format!("writing {}: {error}", self.path.display()));
        }
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        lock(&self.writer.failure)
    }
}

/// Reads a journal, also of an earlier run. A partial last line is ignored.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(|line| serde_json::from_str(line).map_err(Error::from)).collect()
}

/// The entry of a request without an outcome yet. Written on drop at the latest, so that aborted requests are
/// recorded, too.
#[derive(Debug)]
pub(super) struct PendingEntry {
    journal: Journal,
    entry: Option<RequestEntry>,
}

impl PendingEntry {
    pub(super) fn number(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.number)
    }

    pub(super) fn faults(&mut self, names: impl IntoIterator<Item = String>) {
        if let Some(entry) = &mut self.entry {
            entry.faults.extend(names);
        }
    }

    pub(super) fn written(&mut self, body: &[u8]) {
        if let Some(entry) = &mut self.entry {
            entry.written = WrittenObject::parse(body);
        }
    }

    pub(super) fn upstream(&mut self, code: http::StatusCode) {
        if let Some(entry) = &mut self.entry {
            entry.upstream = Some(code.as_u16());
        }
    }

    /// Sets an error that no fault explains.
    pub(super) fn failure(&mut self, failure: String) {
        if let Some(entry) = &mut self.entry {
            entry.failure = Some(failure);
        }
    }

    /// Writes the entry with the status code sent to the client, if any.
    pub(super) fn close(mut self, code: Option<http::StatusCode>) {
        self.write(code);
    }

    fn write(&mut self, code: Option<http::StatusCode>) {
        if let Some(mut entry) = self.entry.take() {
            entry.code = code.map(|code| code.as_u16());
            entry.latency_us = self.journal.now().saturating_sub(entry.at_us);
            self.journal.write(&Entry::Request(entry));
            self.journal.writer.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.failure("aborted by the client or by the end of the proxy".into());
        self.write(None);
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::*;

    fn info() -> RequestInfo {
        RequestInfo::parse(&Method::GET, "/api/v1/pods", "limit=1", "jane".into(), "test/1".into())
    }

    #[test]
    fn entries_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(folder.path().join("journal.jsonl")).unwrap();
        let mut pending = journal.begin(info());
        assert_eq!(journal.pending(), 1);
        pending.upstream(StatusCode::OK);
        pending.faults(["delay 1s".to_owned()]);
        pending.close(Some(StatusCode::OK));
        drop(journal.begin(info()));
        assert_eq!(journal.pending(), 0);
        journal.fault(1, "reset".into(), &RequestMatcher::writes(), true);

        let requests = journal.requests(|_| true).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[0].number, requests[0].code, requests[0].upstream), (1, Some(200), Some(200)));
        assert_eq!(requests[0].info, info());
        assert!(requests[1].failure.is_some(), "an aborted request is recorded as such");
        let text = fs::read_to_string(journal.path()).unwrap();
        fs::write(journal.path(), format!("{text}{{\"record\":\"req")).unwrap();
        assert_eq!(read(journal.path()).unwrap().len(), 3, "a partial line is ignored");
    }

    #[test]
    fn unwritable_journal_is_reported() {
        let journal = Journal::create("/dev/full".into()).unwrap();
        journal.check().unwrap();
        journal.begin(info()).close(None);
        let error = journal.check().unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
        assert!(journal.entries().is_err());
    }
}
