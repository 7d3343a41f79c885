//! The open watches, so that tests can end them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::error_response::ErrorResponse;
use super::matcher::RequestMatcher;
use super::request::RequestInfo;
use crate::sync::lock;

/// How to end a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Reset its connection (RST).
    Reset,
    /// Send this error as the last event and close. A watch with an expired resource version ends this way, with
    /// 410.
    Error(ErrorResponse),
}

/// The open watches by request number.
#[derive(Debug, Default)]
pub(super) struct Watches {
    open: Mutex<BTreeMap<u64, (RequestInfo, oneshot::Sender<WatchEnd>)>>,
}

impl Watches {
    /// Registers a watch until the returned value is dropped.
    pub(super) fn register(self: &Arc<Self>, number: u64, info: RequestInfo) -> WatchGuard {
        let (sender, end) = oneshot::channel();
        self.with(|open| open.insert(number, (info, sender)));
        WatchGuard { watches: self.clone(), number, end }
    }

    /// Ends matching watches and returns their number.
    pub(super) fn end(&self, matching: &RequestMatcher, end: &WatchEnd) -> usize {
        let ended: Vec<_> =
            self.with(|open| open.extract_if(.., |_, (info, _)| matching.matches(info)).collect());
        // Fails if the watch has ended meanwhile.
        ended.into_iter().filter_map(|(_, (_, sender))| sender.send(end.clone()).ok()).count()
    }

    fn with<T>(
        &self,
        access: impl FnOnce(&mut BTreeMap<u64, (RequestInfo, oneshot::Sender<WatchEnd>)>) -> T,
    ) -> T {
        access(&mut lock(&self.open))
    }
}

/// A registered watch.
#[derive(Debug)]
pub(super) struct WatchGuard {
    watches: Arc<Watches>,
    number: u64,
    end: oneshot::Receiver<WatchEnd>,
}

impl WatchGuard {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Completes once, when the watch must end.
    pub(super) async fn ended(&mut self) -> WatchEnd {
        match (&mut self.end).await {
            Ok(end) => end,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.watches.with(|open| open.remove(&self.number));
    }
}
