//! Events: what people are told beside the status. They are sent after the status was stored, by a task of their own, and
//! are lost rather than waited for: a pass must not stand still because somebody wants to tell about it.

use std::future::Future;
use std::time::Duration;

use api::note::Note;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::queue::Backoff;

/// How many events wait at most: what a fleet of some thousand nodes has to tell when it begins, each of them 2 KB.
const MOST_WAITING: usize = 4096;

/// How many are sent at once. They wait for their turn among all that is asked of the API server: fewer would fall behind what a
/// fleet that begins has to tell.
const AT_ONCE: usize = 16;

/// How long one of them may take, with the wait for its turn, and how often it is tried.
const SEND_WITHIN: Duration = Duration::from_secs(20);
const TRIES: u32 = 3;

/// The waits between tries.
const BETWEEN_TRIES: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(2) };

/// How long is spent at the end on what still waits.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The API server takes no longer ones, in bytes.
const MOST_TEXT: usize = 1024;
const MOST_NAME: usize = 128;

/// What became of an event, as metrics name it.
pub(crate) const SENT: &str = "sent";
pub(crate) const DROPPED: &str = "dropped";

/// Where events about objects of the whole cluster are kept.
const OF_THE_CLUSTER: &str = "default";

/// Where events are handed in. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    controller: &'static str,
    instance: String,
    metrics: Metrics,
}

/// The task that sends events.
pub struct Messenger {
    queue: mpsc::Receiver<Event>,
    client: Client,
    metrics: Metrics,
}

impl Events {
    /// A queue of events, and the task that sends them. `controller` is who tells them, `instance` the identity of this process.
    #[must_use]
    pub fn new(
        client: Client,
        controller: &'static str,
        instance: &str,
        metrics: &Metrics,
    ) -> (Self, Messenger) {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        let events = Self { queue, controller, instance: cut(instance, MOST_NAME), metrics: metrics.clone() };
        (events, Messenger { queue: waiting, client, metrics: metrics.clone() })
    }

    /// Hands in what is worth an event about an object. It never waits: what finds no room is dropped, and counted.
    pub fn send<K: Resource<DynamicType = ()>>(&self, object: &K, notes: &[Note]) {
        for note in notes {
            if self.queue.try_send(self.event(object, note, Timestamp::now())).is_err() {
                self.metrics.count_event(DROPPED);
                tracing::debug!(reason = %note.reason, "an event was dropped: too many wait");
            }
        }
    }

    fn event<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note, now: Timestamp) -> Event {
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        let unique = format!("{uid}/{}/{}/{}", note.reason, note.message, now.as_nanosecond());
        let unique: String =
            Sha256::digest(unique.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{unique}")),
                namespace: object.namespace().or_else(|| Some(OF_THE_CLUSTER.into())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.into()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(note.action.into()),
            reason: Some(cut(&note.reason, MOST_NAME)),
            note: Some(cut(&note.message, MOST_TEXT)),
            type_: Some(note.tone.as_str().into()),
            regarding: Some(ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                name: Some(name),
                namespace: object.namespace(),
                uid: Some(uid),
                resource_version: object.resource_version(),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

impl Messenger {
    /// Sends events until `stop`, and then for a moment what still waits.
    pub async fn run(self, stop: CancellationToken) {
        let Self { mut queue, client, metrics } = self;
        let sender = Sender { client, metrics };
        let mut stopped = Box::pin(stop.clone().cancelled_owned());
        let waiting = stream::poll_fn(move |cx| {
            if !queue.is_closed() && stopped.as_mut().poll(cx).is_ready() {
                queue.close();
            }
            queue.poll_recv(cx)
        });
        let all_sent = waiting.for_each_concurrent(AT_ONCE, |event| sender.send(event));
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        tokio::select! {
            () = all_sent => {}
            // What is not told by then is told by the status.
            () = too_late => {}
        }
        // Also when nobody was left who could hand one in.
        stop.cancelled().await;
    }
}

/// Sends one event after the other.
struct Sender {
    client: Client,
    metrics: Metrics,
}

impl Sender {
    /// Sends one. Its name is chosen before: an answer that was lost shows as a conflict with itself, and nothing is told
    /// twice.
    async fn send(&self, event: Event) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let mut why = String::new();
        for attempt in 1..=TRIES {
            let parameters = PostParams::default();
            let sent = timeout(SEND_WITHIN, api.create(&parameters, &event)).await;
            match sent {
                Ok(Ok(_)) => return self.metrics.count_event(SENT),
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    return self.metrics.count_event(SENT);
                }
                // The same would be refused again.
                Ok(Err(kube::Error::Api(status)))
                    if (400..500).contains(&status.code) && status.code != 429 =>
                {
                    why = status.message.clone();
                    break;
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = "no answer in time".into(),
            }
            if attempt < TRIES {
                tokio::time::sleep(BETWEEN_TRIES.after(attempt, fastrand::f64())).await;
            }
        }
        self.metrics.count_event(DROPPED);
        let reason = event.reason.as_deref().unwrap_or_default();
        tracing::debug!(reason, why, "an event could not be sent");
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

#[cfg(test)]
mod tests {
    use api::note::Tone;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn note(message: &str) -> Note {
        Note { tone: Tone::Warning, reason: "NodeFailed".into(), action: "Plan", message: message.to_owned() }
    }

    fn pod() -> Pod {
        let metadata = ObjectMeta {
            name: Some("a".into()),
            namespace: Some("sei".into()),
            uid: Some("u".into()),
            ..ObjectMeta::default()
        };
        Pod { metadata, ..Pod::default() }
    }

    fn events(metrics: &Metrics) -> (Events, Messenger) {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        Events::new(Client::try_from(config).unwrap(), "controller", "i", metrics)
    }

    #[tokio::test]
    async fn a_text_of_any_length_fits_what_the_api_server_takes() {
        let (events, _messenger) = events(&Metrics::new());
        let event = events.event(&pod(), &note(&"ä".repeat(5000)), Timestamp::UNIX_EPOCH);
        let text = event.note.unwrap();
        assert!(text.len() <= MOST_TEXT && text.ends_with("ä..."), "{} bytes", text.len());
    }

    #[tokio::test]
    async fn two_events_about_the_same_have_two_names_and_one_event_has_one() {
        let (events, _messenger) = events(&Metrics::new());
        let name = |at| events.event(&pod(), &note("x"), Timestamp::from_second(at).unwrap()).metadata.name;
        assert_eq!(name(1), name(1));
        assert_ne!(name(1), name(2));
    }

    #[tokio::test]
    async fn an_object_of_the_cluster_has_its_events_where_all_of_those_are() {
        let (events, _messenger) = events(&Metrics::new());
        let place = |object: &Pod| {
            let event = events.event(object, &note("x"), Timestamp::UNIX_EPOCH);
            (event.metadata.namespace, event.regarding.unwrap().namespace)
        };
        assert_eq!(place(&pod()), (Some("sei".into()), Some("sei".into())));
        let mut of_cluster = pod();
        of_cluster.metadata.namespace = None;
        assert_eq!(place(&of_cluster), (Some("default".into()), None));
    }

    #[tokio::test]
    async fn handing_in_never_waits_and_what_finds_no_room_is_counted() {
        let metrics = Metrics::new();
        let (events, _messenger) = events(&metrics);
        let notes: Vec<Note> = (0..MOST_WAITING + 3).map(|n| note(&n.to_string())).collect();
        events.send(&pod(), &notes);
        let text = metrics.text();
        assert!(text.contains("outrigger_events_total{outcome=\"dropped\"} 3"), "{text}");
    }
}
