//! Outcomes of writes on a real API server.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use runtime::lease::Claim;
use runtime::metrics::Metrics;
use runtime::write::{WriteOutcome, Writer};
use serde_json::json;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, FaultProxy, LostResponse, RequestMatcher, Times};
use testbed::{Context, TestResult};

use crate::fixture::Fixture;
use crate::toy::{self, MANAGER, Toy, ToyStatus};

/// Returns a writer that connects through `proxy`, or directly.
async fn writer(cx: &Context, proxy: Option<&FaultProxy>) -> Result<Writer, testbed::Error> {
    let plane = cx.control_plane().await?;
    let user = proxy.map_or_else(|| plane.admin().clone(), |proxy| plane.admin().at(proxy.url()));
    let client = toy::connect(user.write_kubeconfig(cx.logs())?, cx.name()).await;
    Ok(Writer::new(client, MANAGER, Claim::permanent(), &Metrics::new()))
}

async fn count_requests(cx: &Context) -> Result<usize, testbed::Error> {
    Ok(cx.control_plane().await?.audit().requests(|request| request.user_agent == cx.name())?.len())
}

fn expect_applied<K: std::fmt::Debug>(outcome: WriteOutcome<K>) -> K {
    match outcome {
        WriteOutcome::Applied(object) => object,
        other => unreachable!("not applied: {other:?}"),
    }
}

pub async fn unchanged_object_causes_no_request(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = fixture.set("a", 1).await?;
    let map = expect_applied(writer.apply(&toy::desired_map(&toy), None::<&ConfigMap>).await?);
    let status = ToyStatus { seen_size: 1 };
    let toy = expect_applied(writer.status_update(&toy).write(&status).await?);
    let before = count_requests(&cx).await?;
    for _ in 0..3 {
        assert_eq!(writer.apply(&toy::desired_map(&toy), Some(&map)).await?, WriteOutcome::Unchanged);
        assert!(matches!(writer.status_update(&toy).write(&status).await?, WriteOutcome::Unchanged));
    }
    assert_eq!(count_requests(&cx).await?, before, "the audit log has no new request");
    // Without a cached object the request is sent, and the API server treats it as a no-op.
    let again = expect_applied(writer.apply(&toy::desired_map(&toy), None::<&ConfigMap>).await?);
    assert_eq!(again.resource_version(), map.resource_version());
    Ok(())
}

pub async fn removed_field_is_deleted_from_the_object(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = fixture.set("a", 1).await?;
    let mut desired = toy::desired_map(&toy);
    desired.data.get_or_insert_default().insert("color".into(), "red".into());
    let map = expect_applied(writer.apply(&desired, None::<&ConfigMap>).await?);
    let map = expect_applied(writer.apply(&toy::desired_map(&toy), Some(&map)).await?);
    let data = map.data.unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["size"], "{data:?}");
    Ok(())
}

pub async fn field_of_another_manager_is_a_conflict(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = fixture.set("a", 1).await?;
    let foreign = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "size": "99" } });
    let live = fixture.maps.patch("a", &PatchParams::apply("other"), &Patch::Apply(&foreign)).await?;
    let outcome = writer.apply(&toy::desired_map(&toy), Some(&live)).await?;
    let WriteOutcome::Conflict(message) = outcome else { return Err(format!("{outcome:?}").into()) };
    assert!(message.contains("conflict with \"other\"") && message.contains(".data.size"), "{message}");
    assert_eq!(fixture.maps.get("a").await?.data.unwrap_or_default()["size"], "99");
    Ok(())
}

pub async fn stale_status_write_is_rejected(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let writer = writer(&cx, None).await?;
    let old = fixture.set("a", 1).await?;
    let newer = expect_applied(writer.status_update(&old).write(&ToyStatus { seen_size: 1 }).await?);
    let outcome = writer.status_update(&old).write(&ToyStatus { seen_size: 7 }).await?;
    assert!(matches!(outcome, WriteOutcome::Stale(_)), "{outcome:?}");
    let conflicts =
        plane.audit().requests(|request| request.user_agent == cx.name() && request.code == 409)?;
    assert_eq!(conflicts.into_iter().map(|request| request.subresource).collect::<Vec<_>>(), ["status"]);
    let stored: Toy = fixture.toys.get("a").await?;
    assert_eq!(
        (stored.resource_version(), stored.status),
        (newer.resource_version(), Some(ToyStatus { seen_size: 1 }))
    );
    Ok(())
}

pub async fn lost_response_is_unknown_and_rejection_is_not(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let writer = writer(&cx, Some(&proxy)).await?;
    for (name, loss) in [("reset", LostResponse::Reset), ("timeout", LostResponse::GatewayTimeout)] {
        let toy = fixture.set(name, 1).await?;
        let lost = proxy.inject(Fault::LoseResponse(loss), RequestMatcher::writes(), Times::ONCE);
        let outcome = writer.apply(&toy::desired_map(&toy), None::<&ConfigMap>).await?;
        assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{name}: {outcome:?}");
        lost.wait_fired(1, Duration::from_secs(5)).await?;
        assert!(
            fixture.maps.get_opt(name).await?.is_some(),
            "{name}: it was written, although the response was lost"
        );
    }
    let toy = fixture.set("refused", 1).await?;
    for (code, expected) in [
        (422, "rejected"),
        (403, "forbidden"),
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
    ] {
        let refusal = ErrorResponse::new(StatusCode::from_u16(code)?);
        proxy.inject(Fault::Respond(refusal), RequestMatcher::writes(), Times::ONCE);
        assert_eq!(
            writer.apply(&toy::desired_map(&toy), None::<&ConfigMap>).await?.name(),
            expected,
            "{code}"
        );
    }
    assert!(fixture.maps.get_opt("refused").await?.is_none());
    Ok(())
}

pub async fn delete_spares_recreated_object(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = fixture.set("a", 1).await?;
    let first = expect_applied(writer.apply(&toy::desired_map(&toy), None::<&ConfigMap>).await?);
    fixture.maps.delete("a", &DeleteParams::default()).await?;
    let second = fixture.maps.create(&PostParams::default(), &toy::desired_map(&toy)).await?;
    let outcome = writer.delete(&first).await?;
    assert!(matches!(outcome, WriteOutcome::Stale(_)), "{outcome:?}");
    assert_eq!(fixture.maps.get("a").await?.uid(), second.uid(), "the recreated object is untouched");
    assert!(matches!(writer.delete(&second).await?, WriteOutcome::Applied(_)));
    assert!(
        matches!(writer.delete(&second).await?, WriteOutcome::Unchanged),
        "deleting a missing object is a no-op"
    );
    let metadata = kube::api::ObjectMeta { resource_version: None, uid: None, ..first.metadata.clone() };
    let fresh = ConfigMap { metadata, ..ConfigMap::default() };
    assert!(matches!(writer.create(&fresh).await?, WriteOutcome::Applied(_)));
    assert!(
        matches!(writer.create(&fresh).await?, WriteOutcome::Stale(_)),
        "an existing object is not adopted"
    );
    Ok(())
}

pub async fn released_claim_prevents_writes(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let toy = fixture.set("a", 1).await?;
    let client = toy::connect(plane.admin().write_kubeconfig(cx.logs())?, cx.name()).await;
    let config = runtime::lease::Config {
        duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(200),
        ..runtime::lease::Config::new(&fixture.namespace, "claim", "me")
    };
    let (elector, mut leadership) =
        runtime::lease::LeaderElector::new(client.clone(), config, &Metrics::new());
    let stop = tokio_util::sync::CancellationToken::new();
    let electing = tokio::spawn(elector.run(stop.clone()));
    let leading =
        leadership.wait_for(|now| matches!(now, runtime::lease::Leadership::Leading(_))).await?.clone();
    let runtime::lease::Leadership::Leading(claim) = leading else {
        return Err("not leading".into());
    };
    let writer = Writer::new(client, MANAGER, claim, &Metrics::new());
    let map = expect_applied(writer.apply(&toy::desired_map(&toy), None::<&ConfigMap>).await?);
    stop.cancel();
    electing.await?;
    let error = writer.delete(&map).await.expect_err("the claim was released");
    assert_eq!(error.to_string(), "not the leader; nothing was sent");
    assert!(fixture.maps.get_opt("a").await?.is_some());
    Ok(())
}
