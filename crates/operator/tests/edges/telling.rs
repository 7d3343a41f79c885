//! Events on a real API server, and without one.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::names::manager;
use api::note::{Note, Tone};
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use runtime::events::Events;
use runtime::metrics::Metrics;
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tokio_util::sync::CancellationToken;

use crate::server::SOON;

fn node(namespace: &str) -> SeiNode {
    serde_json::from_value(json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
        "metadata": { "name": "a", "namespace": namespace, "uid": "0a1b2c3d-0000-4000-8000-000000000000" },
        "spec": { "chainId": "c", "image": "images.example/seid:1", "fullNode": {} },
    }))
    .expect("it is a node")
}

fn notes() -> [Note; 2] {
    [
        Note {
            tone: Tone::Normal,
            reason: "PhaseTransition".into(),
            action: "Plan",
            message: "Pending -> Running".into(),
        },
        Note { tone: Tone::Warning, reason: "NodeFailed".into(), action: "Plan", message: "ü".repeat(3000) },
    ]
}

pub async fn events_arrive_on_the_node(cx: Context) -> TestResult {
    let client = cx.control_plane().await?.client().await?;
    let namespace = cx.namespace().await?;
    let metrics = Metrics::new();
    let (events, messenger) = Events::new(client.clone(), manager::NODE, "operator-0_1", &metrics);
    let stop = CancellationToken::new();
    let telling = tokio::spawn(messenger.run(stop.clone()));
    events.send(&node(&namespace), &notes());
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let arrived = wait::until("two events", SOON, || async {
        let found = api.list(&ListParams::default()).await?.items;
        if found.len() == 2 { Ok(found) } else { Err(Error::Refused(format!("{found:?}"))) }
    })
    .await?;
    for event in &arrived {
        let of = event.regarding.clone().unwrap_or_default();
        assert_eq!((of.kind.as_deref(), of.name.as_deref()), (Some("SeiNode"), Some("a")));
        assert_eq!(of.uid.as_deref(), Some("0a1b2c3d-0000-4000-8000-000000000000"));
        assert_eq!(event.reporting_controller.as_deref(), Some("seinode-controller"));
        assert_eq!(event.reporting_instance.as_deref(), Some("operator-0_1"));
    }
    let mut reasons: Vec<(Option<&str>, Option<&str>)> =
        arrived.iter().map(|event| (event.type_.as_deref(), event.reason.as_deref())).collect();
    reasons.sort();
    assert_eq!(reasons, [(Some("Normal"), Some("PhaseTransition")), (Some("Warning"), Some("NodeFailed"))]);
    // `kubectl describe` looks for them so.
    let on_the_node = ListParams::default().fields("involvedObject.kind=SeiNode,involvedObject.name=a");
    let described: Api<CoreEvent> = Api::namespaced(client, &namespace);
    assert_eq!(described.list(&on_the_node).await?.items.len(), 2);

    // What waits when the process is told to end is still told.
    events.send(&node(&namespace), &notes()[..1]);
    stop.cancel();
    telling.await?;
    let text = metrics.text();
    assert!(text.contains("outrigger_events_total{outcome=\"sent\"} 3"), "{text}");
    assert!(text.contains("outrigger_events_total{outcome=\"dropped\"} 0"), "{text}");
    Ok(())
}

/// What a fleet has to tell when it begins arrives, and all of it.
pub async fn a_thousand_events_at_once_all_arrive(cx: Context) -> TestResult {
    const ALL: usize = 1_000;
    let client = cx.control_plane().await?.client().await?;
    let namespace = cx.namespace().await?;
    let metrics = Metrics::new();
    let (events, messenger) = Events::new(client.clone(), manager::NODE, "operator-0_1", &metrics);
    let stop = CancellationToken::new();
    let telling = tokio::spawn(messenger.run(stop.clone()));
    for number in 0..ALL {
        let message = number.to_string();
        events.send(
            &node(&namespace),
            &[Note { tone: Tone::Normal, reason: "PhaseTransition".into(), action: "Plan", message }],
        );
    }
    let api: Api<Event> = Api::namespaced(client, &namespace);
    wait::until("all of them", Duration::from_secs(60), || async {
        let found = api.list(&ListParams::default()).await?.items.len();
        if found == ALL { Ok(()) } else { Err(Error::Refused(format!("{found} have arrived"))) }
    })
    .await?;
    stop.cancel();
    telling.await?;
    Ok(())
}

pub async fn an_api_server_that_is_away_costs_events_and_nothing_else(cx: Context) -> TestResult {
    let address = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let config = kube::Config::new(format!("http://{address}").parse()?);
    // The control plane's client makes the TLS provider known, which every client asks for.
    cx.control_plane().await?.client().await?;
    let metrics = Metrics::new();
    let (events, messenger) =
        Events::new(kube::Client::try_from(config)?, manager::NODE, "operator-0_1", &metrics);
    let stop = CancellationToken::new();
    let telling = tokio::spawn(messenger.run(stop.clone()));
    let begin = Instant::now();
    events.send(&node("sei"), &notes());
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
    wait::until("both to be given up", SOON, || async {
        let text = metrics.text();
        if text.contains("outrigger_events_total{outcome=\"dropped\"} 2") {
            Ok(())
        } else {
            Err(Error::Refused("not yet".into()))
        }
    })
    .await?;
    stop.cancel();
    telling.await?;
    Ok(())
}
