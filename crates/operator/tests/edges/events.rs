//! Events on a real API server, and without one.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::event::{EventRecord, EventType};
use api::names::manager;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use runtime::events::EventRecorder;
use runtime::metrics::Metrics;
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::server::TIMEOUT;

fn node(namespace: &str) -> SeiNode {
    serde_json::from_value(json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
        "metadata": { "name": "a", "namespace": namespace, "uid": "0a1b2c3d-0000-4000-8000-000000000000" },
        "spec": { "chainId": "c", "image": "images.example/seid:1", "fullNode": {} },
    }))
    .expect("a valid node")
}

fn notes() -> [EventRecord; 2] {
    [
        EventRecord {
            event_type: EventType::Normal,
            reason: "PhaseTransition".into(),
            action: "Plan",
            message: "Pending -> Running".into(),
        },
        EventRecord {
            event_type: EventType::Warning,
            reason: "NodeFailed".into(),
            action: "Plan",
            message: "ü".repeat(3000),
        },
    ]
}

/// Starts the task that sends events. It runs until the token is cancelled.
fn start_sender(
    client: kube::Client,
    metrics: &Metrics,
) -> (EventRecorder, CancellationToken, JoinHandle<()>) {
    let (events, sender) = EventRecorder::new(client, manager::NODE, "operator-0_1", metrics);
    let stop = CancellationToken::new();
    let sending = tokio::spawn(sender.run(stop.clone()));
    (events, stop, sending)
}

pub async fn events_are_recorded_on_the_node(cx: Context) -> TestResult {
    let client = cx.control_plane().await?.client().await?;
    let namespace = cx.namespace().await?;
    let metrics = Metrics::new();
    let (events, stop, sending) = start_sender(client.clone(), &metrics);
    events.publish(&node(&namespace), &notes());
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let recorded = wait::until("two events", TIMEOUT, || async {
        let found = api.list(&ListParams::default()).await?.items;
        if found.len() == 2 { Ok(found) } else { Err(Error::Other(format!("{found:?}"))) }
    })
    .await?;
    for event in &recorded {
        let object = event.regarding.clone().unwrap_or_default();
        assert_eq!((object.kind.as_deref(), object.name.as_deref()), (Some("SeiNode"), Some("a")));
        assert_eq!(object.uid.as_deref(), Some("0a1b2c3d-0000-4000-8000-000000000000"));
        assert_eq!(event.reporting_controller.as_deref(), Some("seinode-controller"));
        assert_eq!(event.reporting_instance.as_deref(), Some("operator-0_1"));
    }
    let mut reasons: Vec<(Option<&str>, Option<&str>)> =
        recorded.iter().map(|event| (event.type_.as_deref(), event.reason.as_deref())).collect();
    reasons.sort();
    assert_eq!(reasons, [(Some("Normal"), Some("PhaseTransition")), (Some("Warning"), Some("NodeFailed"))]);
    // The field selector of `kubectl describe`.
    let involving_node = ListParams::default().fields("involvedObject.kind=SeiNode,involvedObject.name=a");
    let described: Api<CoreEvent> = Api::namespaced(client, &namespace);
    assert_eq!(described.list(&involving_node).await?.items.len(), 2);

    // Pending events are still sent during shutdown.
    events.publish(&node(&namespace), &notes()[..1]);
    stop.cancel();
    sending.await?;
    let text = metrics.encode();
    assert!(text.contains("outrigger_events_total{outcome=\"sent\"} 3"), "{text}");
    assert!(text.contains("outrigger_events_total{outcome=\"dropped\"} 0"), "{text}");
    Ok(())
}

/// A fleet that starts at once emits this many events.
pub async fn burst_of_a_thousand_events_is_recorded(cx: Context) -> TestResult {
    const ALL: usize = 1_000;
    let client = cx.control_plane().await?.client().await?;
    let namespace = cx.namespace().await?;
    let metrics = Metrics::new();
    let (events, stop, sending) = start_sender(client.clone(), &metrics);
    for number in 0..ALL {
        let message = number.to_string();
        events.publish(
            &node(&namespace),
            &[EventRecord {
                event_type: EventType::Normal,
                reason: "PhaseTransition".into(),
                action: "Plan",
                message,
            }],
        );
    }
    let api: Api<Event> = Api::namespaced(client, &namespace);
    wait::until("all events", Duration::from_secs(60), || async {
        let found = api.list(&ListParams::default()).await?.items.len();
        if found == ALL { Ok(()) } else { Err(Error::Other(format!("{found} events"))) }
    })
    .await?;
    stop.cancel();
    sending.await?;
    Ok(())
}

pub async fn unreachable_api_server_drops_events_only(cx: Context) -> TestResult {
    let address = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let config = kube::Config::new(format!("http://{address}").parse()?);
    // Creating a client of the control plane installs the TLS provider that every client needs.
    cx.control_plane().await?.client().await?;
    let metrics = Metrics::new();
    let (events, stop, sending) = start_sender(kube::Client::try_from(config)?, &metrics);
    let begin = Instant::now();
    events.publish(&node("sei"), &notes());
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
    wait::until("both events to be dropped", TIMEOUT, || async {
        let text = metrics.encode();
        if text.contains("outrigger_events_total{outcome=\"dropped\"} 2") {
            Ok(())
        } else {
            Err(Error::Other("not yet".into()))
        }
    })
    .await?;
    stop.cancel();
    sending.await?;
    Ok(())
}
