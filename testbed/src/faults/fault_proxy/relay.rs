//! Relays one watch to the client, event by event.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use futures_util::Stream;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use serde_json::json;
use tokio::sync::watch;

use super::connection::Control;
use super::event::{Event, Lines};
use super::exchange::{BodyError, Shared};
use super::journal::{Fate, WatchEndCause};
use super::request::RequestInfo;
use super::rules::Rule;
use super::upstream::UpstreamBody;
use super::watches::{WatchEnd, WatchGuard};

/// One watch.
pub(super) struct Relay {
    shared: Arc<Shared>,
    control: Arc<Control>,
    info: RequestInfo,
    guard: WatchGuard,
    changes: watch::Receiver<()>,
    /// `None` if the API server has ended the watch but the client must not notice.
    source: Option<UpstreamBody>,
    lines: Lines,
    /// Events withheld by a frozen view, in order; also the initial events.
    withheld: VecDeque<Event>,
    black_hole: Option<Arc<Rule>>,
    counted: BTreeSet<u64>,
    /// How the watch ended; until then, how it ends if the client disconnects.
    end: WatchEndCause,
}

impl Relay {
    /// Creates a watch that sends `first`, then the events of `source`.
    pub(super) fn new(
        shared: Arc<Shared>,
        control: Arc<Control>,
        info: RequestInfo,
        number: u64,
        source: UpstreamBody,
        first: Vec<Event>,
    ) -> Self {
        Self {
            guard: shared.watches.register(number, info.clone()),
            changes: shared.rules.changes(),
            shared,
            control,
            info,
            source: Some(source),
            lines: Lines::default(),
            withheld: first.into(),
            black_hole: None,
            counted: BTreeSet::new(),
            end: WatchEndCause::Client,
        }
    }

    /// Returns the response body.
    pub(super) fn into_frames(self) -> impl Stream<Item = Result<Frame<Bytes>, BodyError>> {
        futures_util::stream::unfold(self, |mut relay| async move {
            let line = relay.next().await?;
            Some((Ok(Frame::data(line)), relay))
        })
    }

    /// Returns the next line for the client; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        while self.end == WatchEndCause::Client {
            self.changes.borrow_and_update();
            self.check_black_hole();
            match &self.black_hole {
                Some(hole) if hole.is_lifted() => match self.reset(WatchEndCause::Reset).await {},
                Some(_) => {}
                None => {
                    if let Some(event) = self.next_thawed() {
                        return Some(self.deliver(event));
                    }
                }
            }
            tokio::select! {
                biased;
                // Fails if the proxy was dropped, which ends this task too.
                _ = self.changes.changed() => {}
                how = self.guard.ended() => return Some(self.end_with(how).await),
                read = read_line(&mut self.source, &mut self.lines) => match read {
                    Ok(Some(line)) => {
                        if let Some(line) = self.process(line).await {
                            return Some(line);
                        }
                    }
                    Ok(None) if self.black_hole.is_none() => self.end = WatchEndCause::Server,
                    Ok(None) => self.source = None,
                    Err(_) if self.black_hole.is_none() => match self.reset(WatchEndCause::Broken).await {},
                    Err(_) => self.source = None,
                },
            }
        }
        None
    }

    /// Applies faults to an event; returns it if it must be delivered now.
    async fn process(&mut self, line: Bytes) -> Option<Bytes> {
        let event = match Event::parse(line) {
            Ok(event) => event,
            Err(why) => {
                self.shared.journal.fail(why);
                match self.reset(WatchEndCause::Broken).await {}
            }
        };
        // Checked again: an event that arrives after the injection must not slip through.
        self.check_black_hole();
        if self.black_hole.is_some() {
            self.record(&event, Fate::Withheld);
            return None;
        }
        if let Some(rule) = self.shared.rules.dropping_rule(&self.info, &event) {
            self.record(&event, Fate::Dropped);
            rule.fire();
            return None;
        }
        let frozen = self.shared.rules.frozen(&self.info).filter(|(_, revision)| revision.is_before(&event));
        if let Some((rule, _)) = &frozen {
            rule.fire();
        }
        // Events behind a withheld one wait, too, to keep the order.
        if frozen.is_some() || !self.withheld.is_empty() {
            self.record(&event, Fate::Withheld);
            self.withheld.push_back(event);
            return None;
        }
        Some(self.deliver(event))
    }

    /// Returns the first withheld event, if it is no longer frozen.
    fn next_thawed(&mut self) -> Option<Event> {
        let first = self.withheld.front()?;
        let frozen = self.shared.rules.frozen(&self.info);
        if frozen.is_some_and(|(_, revision)| revision.is_before(first)) {
            return None;
        }
        self.withheld.pop_front()
    }

    fn deliver(&self, event: Event) -> Bytes {
        self.record(&event, Fate::Delivered);
        event.line
    }

    fn check_black_hole(&mut self) {
        if self.black_hole.is_none() {
            self.black_hole = self.shared.rules.black_hole(&self.info, &mut self.counted);
            if let Some(hole) = &self.black_hole {
                hole.fire();
            }
        }
    }

    /// Ends the watch. A watch in a black hole cannot deliver an error.
    async fn end_with(&mut self, how: WatchEnd) -> Bytes {
        match how {
            WatchEnd::Error(response) if self.black_hole.is_none() => {
                self.end = WatchEndCause::Error;
                let line = json!({ "type": "ERROR", "object": response.status() });
                let line = Bytes::from(format!("{line}\n"));
                if let Ok(event) = Event::parse(line.clone()) {
                    self.record(&event, Fate::Delivered);
                }
                line
            }
            _ => match self.reset(WatchEndCause::Reset).await {},
        }
    }

    async fn reset(&mut self, end: WatchEndCause) -> Infallible {
        self.end = end;
        self.control.reset().await
    }

    fn record(&self, event: &Event, fate: Fate) {
        self.shared.journal.event(self.guard.number(), event, fate);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.journal.end(self.guard.number(), self.end);
    }
}

/// Returns the next line; `None` at the end of the watch. Without a source it never returns. Cancel-safe.
async fn read_line(
    source: &mut Option<UpstreamBody>,
    lines: &mut Lines,
) -> Result<Option<Bytes>, hyper::Error> {
    let Some(source) = source else { return std::future::pending().await };
    loop {
        if let Some(line) = lines.next() {
            return Ok(Some(line));
        }
        let Some(frame) = source.frame().await else { return Ok(None) };
        if let Some(piece) = frame?.data_ref() {
            lines.push(piece);
        }
    }
}
