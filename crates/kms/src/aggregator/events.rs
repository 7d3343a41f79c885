//! Events: told when a condition's status changes and when entries are removed, by a task of their own. They are lost rather than
//! waited for: a pass must not stand still because somebody wants to tell about it.

use std::time::Duration;

use api::names::manager;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many events wait at most.
const MOST_WAITING: usize = 256;

/// How long the API server may take for one of them.
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// The API server takes no longer ones, in bytes.
const MOST_TEXT: usize = 1024;

/// Where events about objects of the whole cluster are kept.
const NAMESPACE: &str = "default";

/// Something worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) warning: bool,
    pub(super) reason: String,
    pub(super) action: &'static str,
    pub(super) message: String,
}

/// Where events are handed in.
#[derive(Clone)]
pub(super) struct Events {
    queue: mpsc::Sender<Event>,
    instance: String,
}

/// The task that sends events.
pub(super) struct Messenger {
    queue: mpsc::Receiver<Event>,
    client: Client,
}

impl Events {
    pub(super) fn new(client: Client, instance: &str) -> (Self, Messenger) {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        (Self { queue, instance: cut(instance, 128) }, Messenger { queue: waiting, client })
    }

    /// Hands in an event about an object. It never waits: what finds no room is dropped, since the condition says the same.
    pub(super) fn send<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note) {
        if self.queue.try_send(self.event(object, note, Timestamp::now())).is_err() {
            tracing::debug!(reason = note.reason, "an event was dropped: too many wait");
        }
    }

    fn event<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note, now: Timestamp) -> Event {
        let name = object.name_any();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:016x}{:08x}", now.as_nanosecond(), fastrand::u32(..))),
                namespace: Some(NAMESPACE.into()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(manager::KMS_AGGREGATOR.into()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(note.action.into()),
            reason: Some(cut(&note.reason, 128)),
            note: Some(cut(&note.message, MOST_TEXT)),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.into()),
            regarding: Some(ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                name: Some(name),
                uid: object.uid(),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

impl Messenger {
    /// Sends events until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = self.queue.recv() => event,
            };
            // Nobody is left who could hand one in.
            let Some(event) = event else { return stop.cancelled().await };
            let sent = tokio::time::timeout(SEND_WITHIN, api.create(&PostParams::default(), &event)).await;
            match sent {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "an event could not be sent"),
                Err(_) => tracing::debug!("an event could not be sent in time"),
            }
        }
    }
}

/// As much of a text as fits.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    const CUT: &str = "...";
    format!("{}{CUT}", &text[..text.floor_char_boundary(most - CUT.len())])
}
