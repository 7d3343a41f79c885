//! What happened, one JSON document per line, written as it happens: a run can be judged again later from it alone.
//! Bodies and credentials are never in it; of a body only which object it is about.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use super::entry::{End, EndEntry, Entry, EventEntry, Fate, FaultEntry, RequestEntry, Written};
use super::event::Event;
use super::matching::Matching;
use super::request::Asked;
use crate::error::{Error, IoContext, Result};

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
        let file = File::create(&path).context(|| format!("making {}", path.display()))?;
        let writer = Writer {
            file: Mutex::new(file),
            begin: Instant::now(),
            last_number: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            failure: Mutex::new(None),
        };
        Ok(Self { path, writer: Arc::new(writer) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything so far. Fails when something could not be written: what is missing cannot be judged.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        self.check()?;
        read(&self.path)
    }

    /// The requests so far that `wanted` accepts, in the order in which their fates were known.
    pub fn requests(&self, wanted: impl Fn(&RequestEntry) -> bool) -> Result<Vec<RequestEntry>> {
        let requests = self.entries()?.into_iter().filter_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            _ => None,
        });
        Ok(requests.filter(wanted).collect())
    }

    /// The events so far that `wanted` accepts, in their order.
    pub fn events(&self, wanted: impl Fn(&EventEntry) -> bool) -> Result<Vec<EventEntry>> {
        let events = self.entries()?.into_iter().filter_map(|entry| match entry {
            Entry::Event(event) => Some(event),
            _ => None,
        });
        Ok(events.filter(wanted).collect())
    }

    /// How many requests are in the proxy whose fates are not known yet: on their way, delayed, or held.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.writer.pending.load(Ordering::SeqCst)
    }

    /// Fails when something could not be written, or went wrong in the proxy itself.
    pub(super) fn check(&self) -> Result<()> {
        match self.failure().as_ref() {
            None => Ok(()),
            Some(failure) => Err(Error::Refused(format!("the fault proxy cannot be relied on: {failure}"))),
        }
    }

    /// Remembers what went wrong in the proxy itself; the first is the one that explains the others.
    pub(super) fn fail(&self, failure: impl Into<String>) {
        self.failure().get_or_insert_with(|| failure.into());
    }

    /// Begins the entry of a request.
    pub(super) fn begin(&self, asked: Asked) -> Open {
        let number = self.writer.last_number.fetch_add(1, Ordering::SeqCst) + 1;
        let entry = RequestEntry {
            number,
            at_us: self.now(),
            asked,
            written: None,
            code: None,
            upstream: None,
            faults: Vec::new(),
            failure: None,
            latency_us: 0,
        };
        self.writer.pending.fetch_add(1, Ordering::SeqCst);
        Open { journal: self.clone(), entry: Some(entry) }
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

    pub(super) fn end(&self, watch: u64, end: End) {
        self.write(&Entry::End(EndEntry { watch, at_us: self.now(), end }));
    }

    pub(super) fn fault(&self, number: u64, fault: String, matching: &Matching, in_force: bool) {
        let matching = matching.clone();
        self.write(&Entry::Fault(FaultEntry { at_us: self.now(), number, fault, matching, in_force }));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.writer.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Writes one line in one piece, past every buffer of ours: the process may be killed the next moment.
    fn write(&self, entry: &Entry) {
        let written = serde_json::to_vec(entry).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.writer.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
        });
        if let Err(error) = written {
            self.fail(format!("writing {}: {error}", self.path.display()));
        }
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.writer.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a journal, also one of an earlier run. Its last line may be half written.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).map_err(Error::from)).collect()
}

/// The entry of a request whose fate is not known yet. Every request has its line: one that is given up, too.
#[derive(Debug)]
pub(super) struct Open {
    journal: Journal,
    entry: Option<RequestEntry>,
}

impl Open {
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
            entry.written = Written::read(body);
        }
    }

    pub(super) fn upstream(&mut self, code: http::StatusCode) {
        if let Some(entry) = &mut self.entry {
            entry.upstream = Some(code.as_u16());
        }
    }

    /// Something went wrong that no fault explains.
    pub(super) fn failure(&mut self, failure: String) {
        if let Some(entry) = &mut self.entry {
            entry.failure = Some(failure);
        }
    }

    /// The client is given this code, or no answer at all.
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

impl Drop for Open {
    fn drop(&mut self) {
        self.failure("given up by the client, or by the end of the proxy".into());
        self.write(None);
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::*;

    fn asked() -> Asked {
        Asked::read(&Method::GET, "/api/v1/pods", "limit=1", "jane".into(), "test/1".into())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(folder.path().join("journal.jsonl")).unwrap();
        let mut open = journal.begin(asked());
        assert_eq!(journal.pending(), 1);
        open.upstream(StatusCode::OK);
        open.faults(["delay 1s".to_owned()]);
        open.close(Some(StatusCode::OK));
        drop(journal.begin(asked()));
        assert_eq!(journal.pending(), 0);
        journal.fault(1, "reset".into(), &Matching::writes(), true);

        let requests = journal.requests(|_| true).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[0].number, requests[0].code, requests[0].upstream), (1, Some(200), Some(200)));
        assert_eq!(requests[0].asked, asked());
        assert!(requests[1].failure.is_some(), "a request that was given up says so");
        let text = fs::read_to_string(journal.path()).unwrap();
        fs::write(journal.path(), format!("{text}{{\"record\":\"req")).unwrap();
        assert_eq!(read(journal.path()).unwrap().len(), 3, "a half-written line counts not at all");
    }

    #[test]
    fn a_journal_that_cannot_be_written_says_so() {
        let journal = Journal::create("/dev/full".into()).unwrap();
        journal.check().unwrap();
        journal.begin(asked()).close(None);
        let error = journal.check().unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
        assert!(journal.entries().is_err());
    }
}
