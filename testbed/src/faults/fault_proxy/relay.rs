//! One watch on its way to the client, event by event.

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
use super::exchange::{Failure, Shared};
use super::journal::{End, Fate};
use super::request::Asked;
use super::rules::Rule;
use super::upstream::Answering;
use super::watches::{Noted, WatchEnd};

/// One watch.
pub(super) struct Relay {
    shared: Arc<Shared>,
    control: Arc<Control>,
    asked: Asked,
    noted: Noted,
    changes: watch::Receiver<()>,
    /// Gone when the API server has ended the watch and the client must not hear of it.
    source: Option<Answering>,
    lines: Lines,
    /// What a frozen view keeps back, in order; also what is to be told first.
    withheld: VecDeque<Event>,
    hole: Option<Arc<Rule>>,
    met: BTreeSet<u64>,
    /// How it ended, or will have ended when the client goes away now.
    end: End,
}

impl Relay {
    /// A watch that tells `first`, and then what comes from `source`.
    pub(super) fn new(
        shared: Arc<Shared>,
        control: Arc<Control>,
        asked: Asked,
        number: u64,
        source: Answering,
        first: Vec<Event>,
    ) -> Self {
        Self {
            noted: shared.watches.note(number, asked.clone()),
            changes: shared.rules.changes(),
            shared,
            control,
            asked,
            source: Some(source),
            lines: Lines::default(),
            withheld: first.into(),
            hole: None,
            met: BTreeSet::new(),
            end: End::Client,
        }
    }

    /// The body of the answer.
    pub(super) fn into_frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Failure>> {
        futures_util::stream::unfold(self, |mut relay| async move {
            let line = relay.next().await?;
            Some((Ok(Frame::data(line)), relay))
        })
    }

    /// The next line for the client, or nothing when the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        while self.end == End::Client {
            self.changes.borrow_and_update();
            self.fall_into_a_hole();
            match &self.hole {
                Some(hole) if hole.is_lifted() => match self.reset(End::Reset).await {},
                Some(_) => {}
                None => {
                    if let Some(event) = self.thawed() {
                        return Some(self.deliver(event));
                    }
                }
            }
            tokio::select! {
                biased;
                // Fails when the proxy is gone, which ends this too.
                _ = self.changes.changed() => {}
                how = self.noted.ended() => return Some(self.end_with(how).await),
                read = read_line(&mut self.source, &mut self.lines) => match read {
                    Ok(Some(line)) => {
                        if let Some(line) = self.meet(line).await {
                            return Some(line);
                        }
                    }
                    Ok(None) if self.hole.is_none() => self.end = End::Server,
                    Ok(None) => self.source = None,
                    Err(_) if self.hole.is_none() => match self.reset(End::Broken).await {},
                    Err(_) => self.source = None,
                },
            }
        }
        None
    }

    /// Passes an event by the faults; returns it when it is to be delivered now.
    async fn meet(&mut self, line: Bytes) -> Option<Bytes> {
        let event = match Event::read(line) {
            Ok(event) => event,
            Err(why) => {
                self.shared.journal.fail(why);
                match self.reset(End::Broken).await {}
            }
        };
        // Once more: an event that came after a fault must not slip by it.
        self.fall_into_a_hole();
        if self.hole.is_some() {
            self.note(&event, Fate::Withheld);
            return None;
        }
        if let Some(rule) = self.shared.rules.dropping(&self.asked, &event) {
            self.note(&event, Fate::Dropped);
            rule.fire();
            return None;
        }
        let frozen = self.shared.rules.frozen(&self.asked).filter(|(_, revision)| revision.is_before(&event));
        if let Some((rule, _)) = &frozen {
            rule.fire();
        }
        // What comes behind something withheld waits too: the order of events is kept.
        if frozen.is_some() || !self.withheld.is_empty() {
            self.note(&event, Fate::Withheld);
            self.withheld.push_back(event);
            return None;
        }
        Some(self.deliver(event))
    }

    /// The first withheld event, when nothing withholds it any longer.
    fn thawed(&mut self) -> Option<Event> {
        let first = self.withheld.front()?;
        let frozen = self.shared.rules.frozen(&self.asked);
        if frozen.is_some_and(|(_, revision)| revision.is_before(first)) {
            return None;
        }
        self.withheld.pop_front()
    }

    fn deliver(&self, event: Event) -> Bytes {
        self.note(&event, Fate::Delivered);
        event.line
    }

    fn fall_into_a_hole(&mut self) {
        if self.hole.is_none() {
            self.hole = self.shared.rules.black_hole(&self.asked, &mut self.met);
            if let Some(hole) = &self.hole {
                hole.fire();
            }
        }
    }

    /// Ends the watch on purpose. Out of a black hole no error can come.
    async fn end_with(&mut self, how: WatchEnd) -> Bytes {
        match how {
            WatchEnd::Error(refusal) if self.hole.is_none() => {
                self.end = End::Error;
                let line = json!({ "type": "ERROR", "object": refusal.status() });
                let line = Bytes::from(format!("{line}\n"));
                if let Ok(event) = Event::read(line.clone()) {
                    self.note(&event, Fate::Delivered);
                }
                line
            }
            _ => match self.reset(End::Reset).await {},
        }
    }

    async fn reset(&mut self, end: End) -> Infallible {
        self.end = end;
        self.control.reset().await
    }

    fn note(&self, event: &Event, fate: Fate) {
        self.shared.journal.event(self.noted.number(), event, fate);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.journal.end(self.noted.number(), self.end);
    }
}

/// The next line, or nothing at the end of the watch. Nothing is lost when it is not waited for to the end.
async fn read_line(source: &mut Option<Answering>, lines: &mut Lines) -> Result<Option<Bytes>, hyper::Error> {
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
