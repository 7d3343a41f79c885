//! Kubernetes events. They are queued after the status was written and sent by a separate task. A full queue drops events: they
//! must never block a reconcile.

use std::future::Future;
use std::time::Duration;

use api::event::EventRecord;
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

/// Queue capacity: what a fleet of a few thousand nodes emits on start-up, at 2 KB each.
const QUEUE_CAPACITY: usize = 4096;

/// Concurrent sends. Events share the client's concurrency limit with all other requests; with fewer senders the queue overflows
/// when a large fleet starts.
const MAX_CONCURRENT_SENDS: usize = 16;

/// Timeout of one attempt, including the wait for the client's concurrency limit.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_ATTEMPTS: u32 = 3;
const RETRY_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(2) };

/// How long a shutdown waits for queued events.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits of the API server, in bytes.
const MAX_NOTE_LEN: usize = 1024;
const MAX_NAME_LEN: usize = 128;

/// Values of the metric label `outcome`.
pub(crate) const SENT: &str = "sent";
pub(crate) const DROPPED: &str = "dropped";

/// The namespace of events about cluster-scoped objects.
const CLUSTER_EVENT_NAMESPACE: &str = "default";

/// Queues events for sending. Clones share the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Event>,
    controller: &'static str,
    instance: String,
    metrics: Metrics,
}

/// The task that sends queued events.
pub struct EventSender {
    queue: mpsc::Receiver<Event>,
    client: Client,
    metrics: Metrics,
}

impl EventRecorder {
    /// Creates a queue of events and the task that sends them. `controller` is the reporting controller, `instance` the identity
    /// of this process.
    #[must_use]
    pub fn new(
        client: Client,
        controller: &'static str,
        instance: &str,
        metrics: &Metrics,
    ) -> (Self, EventSender) {
        let (queue, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let instance = truncate(instance, MAX_NAME_LEN);
        let events = Self { queue, controller, instance, metrics: metrics.clone() };
        (events, EventSender { queue: receiver, client, metrics: metrics.clone() })
    }

    /// Queues events about `object`. Never blocks: events that exceed the capacity are dropped and counted.
    pub fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, events: &[EventRecord]) {
        for event in events {
            if self.queue.try_send(self.build(object, event, Timestamp::now())).is_err() {
                self.metrics.count_event(DROPPED);
                tracing::debug!(reason = %event.reason, "event dropped: queue full");
            }
        }
    }

    fn build<K: Resource<DynamicType = ()>>(&self, object: &K, event: &EventRecord, now: Timestamp) -> Event {
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        let unique = format!("{uid}/{}/{}/{}", event.reason, event.message, now.as_nanosecond());
        let suffix: String =
            Sha256::digest(unique.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{suffix}")),
                namespace: object.namespace().or_else(|| Some(CLUSTER_EVENT_NAMESPACE.into())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.into()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(event.action.into()),
            reason: Some(truncate(&event.reason, MAX_NAME_LEN)),
            note: Some(truncate(&event.message, MAX_NOTE_LEN)),
            type_: Some(event.event_type.as_str().into()),
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

impl EventSender {
    /// Sends events until `stop` is cancelled, then flushes the queue within a short timeout.
    pub async fn run(self, stop: CancellationToken) {
        let Self { mut queue, client, metrics } = self;
        let sender = Sender { client, metrics };
        let mut stopped = Box::pin(stop.clone().cancelled_owned());
        let queued = stream::poll_fn(move |cx| {
            if !queue.is_closed() && stopped.as_mut().poll(cx).is_ready() {
                queue.close();
            }
            queue.poll_recv(cx)
        });
        let all_sent = queued.for_each_concurrent(MAX_CONCURRENT_SENDS, |event| sender.send(event));
        let flush_timeout = async {
            stop.cancelled().await;
            tokio::time::sleep(FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = all_sent => {}
            // The rest is lost; the status has the same information.
            () = flush_timeout => {}
        }
        // The queue also ends when every `Events` is dropped, but a task must not exit before it is stopped.
        stop.cancelled().await;
    }
}

/// Sends single events with retries.
struct Sender {
    client: Client,
    metrics: Metrics,
}

impl Sender {
    /// Sends one event. Its name is fixed, so if a response was lost, the retry conflicts and creates no duplicate.
    async fn send(&self, event: Event) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let mut last_error = String::new();
        for attempt in 1..=MAX_ATTEMPTS {
            let parameters = PostParams::default();
            let sent = timeout(SEND_TIMEOUT, api.create(&parameters, &event)).await;
            match sent {
                Ok(Ok(_)) => return self.metrics.count_event(SENT),
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    return self.metrics.count_event(SENT);
                }
                // Permanent: a retry would be rejected again.
                Ok(Err(kube::Error::Api(status)))
                    if (400..500).contains(&status.code) && status.code != 429 =>
                {
                    last_error = status.message.clone();
                    break;
                }
                Ok(Err(error)) => last_error = error.to_string(),
                Err(_) => last_error = "timed out".into(),
            }
            if attempt < MAX_ATTEMPTS {
                tokio::time::sleep(RETRY_BACKOFF.delay(attempt, fastrand::f64())).await;
            }
        }
        self.metrics.count_event(DROPPED);
        let reason = event.reason.as_deref().unwrap_or_default();
        tracing::debug!(reason, error = last_error, "failed to send event");
    }
}

/// Truncates to `max` bytes at a character boundary, with an ellipsis.
fn truncate(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    const ELLIPSIS: &str = "...";
    format!("{}{ELLIPSIS}", &text[..text.floor_char_boundary(max - ELLIPSIS.len())])
}

#[cfg(test)]
mod tests {
    use api::event::EventType;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn warning(message: &str) -> EventRecord {
        EventRecord {
            event_type: EventType::Warning,
            reason: "NodeFailed".into(),
            action: "Plan",
            message: message.to_owned(),
        }
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

    fn events(metrics: &Metrics) -> (EventRecorder, EventSender) {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        EventRecorder::new(Client::try_from(config).unwrap(), "controller", "i", metrics)
    }

    #[tokio::test]
    async fn long_message_is_truncated_to_the_api_limit() {
        let (events, _sender) = events(&Metrics::new());
        let event = events.build(&pod(), &warning(&"ä".repeat(5000)), Timestamp::UNIX_EPOCH);
        let text = event.note.unwrap();
        assert!(text.len() <= MAX_NOTE_LEN && text.ends_with("ä..."), "{} bytes", text.len());
    }

    #[tokio::test]
    async fn event_name_is_stable_and_unique_by_time() {
        let (events, _sender) = events(&Metrics::new());
        let name =
            |at| events.build(&pod(), &warning("x"), Timestamp::from_second(at).unwrap()).metadata.name;
        assert_eq!(name(1), name(1));
        assert_ne!(name(1), name(2));
    }

    #[tokio::test]
    async fn event_of_cluster_scoped_object_goes_to_default() {
        let (events, _sender) = events(&Metrics::new());
        let namespaces = |object: &Pod| {
            let event = events.build(object, &warning("x"), Timestamp::UNIX_EPOCH);
            (event.metadata.namespace, event.regarding.unwrap().namespace)
        };
        assert_eq!(namespaces(&pod()), (Some("sei".into()), Some("sei".into())));
        let mut cluster_scoped = pod();
        cluster_scoped.metadata.namespace = None;
        assert_eq!(namespaces(&cluster_scoped), (Some("default".into()), None));
    }

    #[tokio::test]
    async fn full_queue_drops_and_counts_events() {
        let metrics = Metrics::new();
        let (events, _sender) = events(&metrics);
        let too_many: Vec<EventRecord> = (0..QUEUE_CAPACITY + 3).map(|n| warning(&n.to_string())).collect();
        events.publish(&pod(), &too_many);
        let text = metrics.encode();
        assert!(text.contains("outrigger_events_total{outcome=\"dropped\"} 3"), "{text}");
    }
}
