//! What becomes of writes, on a real API server.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use runtime::lease::Claim;
use runtime::metrics::Metrics;
use runtime::write::{Outcome, Writer};
use serde_json::json;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Loss, Matching, Refusal, Times};
use testbed::{Context, TestResult};

use crate::process::Ground;
use crate::toy::{self, MANAGER, Toy, ToyStatus};

/// A writer that goes through a proxy, or straight.
async fn writer(cx: &Context, proxy: Option<&FaultProxy>) -> Result<Writer, testbed::Error> {
    let plane = cx.control_plane().await?;
    let user = proxy.map_or_else(|| plane.admin().clone(), |proxy| plane.admin().at(proxy.url()));
    let client = toy::connect(user.write_kubeconfig(cx.logs())?, cx.name()).await;
    Ok(Writer::new(client, MANAGER, Claim::alone(), &Metrics::new()))
}

async fn requests_of(cx: &Context) -> Result<usize, testbed::Error> {
    Ok(cx.control_plane().await?.audit().requests(|one| one.user_agent == cx.name())?.len())
}

fn applied<K: std::fmt::Debug>(outcome: Outcome<K>) -> K {
    match outcome {
        Outcome::Applied(object) => object,
        other => unreachable!("not applied: {other:?}"),
    }
}

pub async fn nothing_is_sent_when_nothing_would_change(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = ground.set("a", 1).await?;
    let map = applied(writer.apply(&toy::wanted(&toy), None::<&ConfigMap>).await?);
    let status = ToyStatus { seen_size: 1 };
    let toy = applied(writer.pass(&toy).record(&status).await?);
    let before = requests_of(&cx).await?;
    for _ in 0..3 {
        assert_eq!(writer.apply(&toy::wanted(&toy), Some(&map)).await?, Outcome::Unchanged);
        assert!(matches!(writer.pass(&toy).record(&status).await?, Outcome::Unchanged));
    }
    assert_eq!(requests_of(&cx).await?, before, "the audit log saw no request");
    // Without memory of what is there, the API server itself finds that nothing changes.
    let again = applied(writer.apply(&toy::wanted(&toy), None::<&ConfigMap>).await?);
    assert_eq!(again.resource_version(), map.resource_version());
    Ok(())
}

pub async fn a_field_that_is_no_longer_wanted_is_taken_away(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = ground.set("a", 1).await?;
    let mut wanted = toy::wanted(&toy);
    wanted.data.get_or_insert_default().insert("colour".into(), "red".into());
    let map = applied(writer.apply(&wanted, None::<&ConfigMap>).await?);
    let map = applied(writer.apply(&toy::wanted(&toy), Some(&map)).await?);
    let data = map.data.unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["size"], "{data:?}");
    Ok(())
}

pub async fn a_field_of_somebody_else_is_not_taken_from_them(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = ground.set("a", 1).await?;
    let theirs = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "size": "99" } });
    let live = ground.maps.patch("a", &PatchParams::apply("somebody"), &Patch::Apply(&theirs)).await?;
    let outcome = writer.apply(&toy::wanted(&toy), Some(&live)).await?;
    let Outcome::Conflict(message) = outcome else { return Err(format!("{outcome:?}").into()) };
    assert!(message.contains("conflict with \"somebody\"") && message.contains(".data.size"), "{message}");
    assert_eq!(ground.maps.get("a").await?.data.unwrap_or_default()["size"], "99");
    Ok(())
}

pub async fn a_stale_status_is_refused(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let writer = writer(&cx, None).await?;
    let old = ground.set("a", 1).await?;
    let newer = applied(writer.pass(&old).record(&ToyStatus { seen_size: 1 }).await?);
    let outcome = writer.pass(&old).record(&ToyStatus { seen_size: 7 }).await?;
    assert!(matches!(outcome, Outcome::Stale(_)), "{outcome:?}");
    let refused = plane.audit().requests(|one| one.user_agent == cx.name() && one.code == 409)?;
    assert_eq!(refused.into_iter().map(|one| one.subresource).collect::<Vec<_>>(), ["status"]);
    let seen: Toy = ground.toys.get("a").await?;
    assert_eq!(
        (seen.resource_version(), seen.status),
        (newer.resource_version(), Some(ToyStatus { seen_size: 1 }))
    );
    Ok(())
}

pub async fn a_lost_answer_is_unknown_and_a_refusal_is_not(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let writer = writer(&cx, Some(&proxy)).await?;
    for (name, loss) in [("reset", Loss::Reset), ("timeout", Loss::GatewayTimeout)] {
        let toy = ground.set(name, 1).await?;
        let lost = proxy.inject(Fault::LoseAnswer(loss), Matching::writes(), Times::ONCE);
        let outcome = writer.apply(&toy::wanted(&toy), None::<&ConfigMap>).await?;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{name}: {outcome:?}");
        lost.wait_fired(1, Duration::from_secs(5)).await?;
        assert!(ground.maps.get_opt(name).await?.is_some(), "{name}: it was written, and nobody was told");
    }
    let toy = ground.set("refused", 1).await?;
    for (code, wanted) in [
        (422, "rejected"),
        (403, "forbidden"),
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
    ] {
        let refusal = Refusal::of(StatusCode::from_u16(code)?);
        proxy.inject(Fault::Answer(refusal), Matching::writes(), Times::ONCE);
        assert_eq!(writer.apply(&toy::wanted(&toy), None::<&ConfigMap>).await?.name(), wanted, "{code}");
    }
    assert!(ground.maps.get_opt("refused").await?.is_none());
    Ok(())
}

pub async fn a_delete_hits_only_the_object_that_was_seen(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let writer = writer(&cx, None).await?;
    let toy = ground.set("a", 1).await?;
    let first = applied(writer.apply(&toy::wanted(&toy), None::<&ConfigMap>).await?);
    ground.maps.delete("a", &DeleteParams::default()).await?;
    let second = ground.maps.create(&PostParams::default(), &toy::wanted(&toy)).await?;
    let outcome = writer.delete(&first).await?;
    assert!(matches!(outcome, Outcome::Stale(_)), "{outcome:?}");
    assert_eq!(ground.maps.get("a").await?.uid(), second.uid(), "the new one is untouched");
    assert!(matches!(writer.delete(&second).await?, Outcome::Applied(_)));
    assert!(matches!(writer.delete(&second).await?, Outcome::Unchanged), "gone is gone");
    let made = ConfigMap { metadata: first.metadata.clone(), ..ConfigMap::default() };
    let fresh = ConfigMap {
        metadata: kube::api::ObjectMeta { resource_version: None, uid: None, ..made.metadata },
        ..made
    };
    assert!(matches!(writer.create(&fresh).await?, Outcome::Applied(_)));
    assert!(
        matches!(writer.create(&fresh).await?, Outcome::Stale(_)),
        "one that exists is looked at, not taken over"
    );
    Ok(())
}

pub async fn without_a_claim_nothing_is_sent(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let toy = ground.set("a", 1).await?;
    let client = toy::connect(plane.admin().write_kubeconfig(cx.logs())?, cx.name()).await;
    let config = runtime::lease::Config {
        duration: Duration::from_secs(3),
        write_for: Duration::from_secs(2),
        every: Duration::from_millis(200),
        ..runtime::lease::Config::new(&ground.namespace, "claim", "me")
    };
    let (campaign, mut leadership) = runtime::lease::Campaign::new(client.clone(), config, &Metrics::new());
    let stop = tokio_util::sync::CancellationToken::new();
    let campaigning = tokio::spawn(campaign.run(stop.clone()));
    let leading =
        leadership.wait_for(|now| matches!(now, runtime::lease::Leadership::Leading(_))).await?.clone();
    let runtime::lease::Leadership::Leading(claim) = leading else {
        return Err("not leading".into());
    };
    let writer = Writer::new(client, MANAGER, claim, &Metrics::new());
    let map = applied(writer.apply(&toy::wanted(&toy), None::<&ConfigMap>).await?);
    stop.cancel();
    campaigning.await?;
    let refused = writer.delete(&map).await.expect_err("the claim was given back");
    assert_eq!(refused.to_string(), "this process does not lead (any more); nothing was written");
    assert!(ground.maps.get_opt("a").await?.is_some());
    Ok(())
}
