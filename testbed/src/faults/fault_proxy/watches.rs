//! The watches that are open, so that they can be ended on purpose.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::matching::Matching;
use super::refusal::Refusal;
use super::request::Asked;

/// How a watch is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Its connection is reset (RST).
    Reset,
    /// Its last event is this error; then it ends as watches do. A watch that has lost its place ends so, with 410.
    Error(Refusal),
}

/// The watches that are open, by the numbers of their requests.
#[derive(Debug, Default)]
pub(super) struct Watches {
    open: Mutex<BTreeMap<u64, (Asked, oneshot::Sender<WatchEnd>)>>,
}

impl Watches {
    /// Notes a watch, for as long as the returned value lives.
    pub(super) fn note(self: &Arc<Self>, number: u64, asked: Asked) -> Noted {
        let (sender, end) = oneshot::channel();
        self.with(|open| open.insert(number, (asked, sender)));
        Noted { watches: self.clone(), number, end }
    }

    /// Ends those that fit, and returns how many these were.
    pub(super) fn end(&self, matching: &Matching, how: &WatchEnd) -> usize {
        let ended: Vec<_> =
            self.with(|open| open.extract_if(.., |_, (asked, _)| matching.fits(asked)).collect());
        // Refused by a watch that has ended by itself meanwhile.
        ended.into_iter().filter_map(|(_, (_, sender))| sender.send(how.clone()).ok()).count()
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<u64, (Asked, oneshot::Sender<WatchEnd>)>) -> T) -> T {
        access(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A watch that can be ended.
#[derive(Debug)]
pub(super) struct Noted {
    watches: Arc<Watches>,
    number: u64,
    end: oneshot::Receiver<WatchEnd>,
}

impl Noted {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns when the watch is to be ended, once.
    pub(super) async fn ended(&mut self) -> WatchEnd {
        match (&mut self.end).await {
            Ok(how) => how,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.watches.with(|open| open.remove(&self.number));
    }
}
