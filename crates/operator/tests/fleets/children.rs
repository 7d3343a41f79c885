//! Creation, scaling and deletion.

use api::SeiNodeDeployment;
use api::names::{annotation, label};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, OTHER_IMAGE};
use crate::fleet::{Fleet, TIMEOUT, condition, has_reason};

pub async fn fleet_creates_scales_and_reports_its_nodes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let fleet = Fleet::create_available(&fixture, 2, |_| {}).await?;
    let nodes = fleet.nodes().await?;
    assert_eq!(nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["f-0", "f-1"]);
    let owner = &nodes[0].owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("SeiNodeDeployment", Some(true)));
    let service = fixture.api::<Service>().get("f-internal").await?;
    let selector = service.spec.and_then(|spec| spec.selector).unwrap_or_default();
    assert_eq!(selector, [(label::FLEET.to_owned(), "f".to_owned())].into());
    // The revisions of StatefulSets have the labels of their pods.
    let of_fleets = ListParams::default().labels(&format!("{},!{}", label::FLEET, label::NODE));
    let revisions = fixture.api::<ControllerRevision>().list(&of_fleets).await?;
    assert_eq!(revisions.items.len(), 1);

    // The scale subresource, as kubectl and autoscalers use it.
    let scale = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    let scaled = fixture.api::<SeiNodeDeployment>().patch_scale("f", &PatchParams::default(), &scale).await?;
    let selector = scaled.status.and_then(|status| status.selector);
    assert_eq!(selector.as_deref(), Some("sei.io/nodedeployment=f"));
    fleet.wait("three nodes are available", |_, status| status.available_replicas == Some(3)).await?;
    fleet.edit(json!({ "spec": { "replicas": 1 } })).await?;
    fleet.wait("one node is left", |_, status| status.replicas == Some(1)).await?;
    wait::until("the nodes are gone", TIMEOUT, || async {
        let nodes = fleet.nodes().await.map_err(|error| error.to_string())?;
        if nodes.len() == 1 { Ok(()) } else { Err(format!("{} nodes", nodes.len())) }
    })
    .await?;

    // Steady state: nothing is written.
    let before = fleet.wait_complete("it is complete").await?.resource_version();
    wait::throughout("no write in steady state", std::time::Duration::from_secs(35), || async {
        let now = fleet.get().await.map_err(|error| error.to_string())?.resource_version();
        if now == before { Ok(()) } else { Err(format!("{before:?} became {now:?}")) }
    })
    .await?;

    // A manifest without replicas would otherwise delete nodes.
    let mut without = serde_json::to_value(fleet.get().await?)?;
    without["spec"].as_object_mut().expect("a spec").remove("replicas");
    without["metadata"] = json!({ "name": "g" });
    let error = testbed::cluster::kubectl::apply(fixture.plane, &without.to_string());
    assert!(error.is_err_and(|error| error.to_string().contains("spec.replicas")), "replicas is required");
    Ok(())
}

pub async fn retained_nodes_outlive_their_fleet(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let retain = |fleet: &mut serde_json::Value| fleet["spec"]["deletionPolicy"] = json!("Retain");
    let fleet = Fleet::create_available(&fixture, 2, retain).await?;
    let uids: Vec<_> = fleet.nodes().await?.iter().map(ResourceExt::uid).collect();
    let fleets = fixture.api::<SeiNodeDeployment>();
    fleets.delete("f", &DeleteParams::foreground()).await?;
    wait::until("the fleet is gone", TIMEOUT, || async {
        match fleets.get_opt("f").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let nodes = fleet.nodes().await?;
    assert_eq!(nodes.iter().map(ResourceExt::uid).collect::<Vec<_>>(), uids);

    // A fleet of the same name takes them over on request, without a restart.
    let generations: Vec<_> = nodes.iter().map(|node| node.metadata.generation).collect();
    let again = Fleet::create(&fixture, 2, retain).await?;
    again.wait("the names are taken", |_, status| has_reason(status, "SpecApplied", "NameConflict")).await?;
    again.edit(json!({ "metadata": { "annotations": { annotation::ADOPT_NODES: "true" } } })).await?;
    again.wait_complete("the nodes are adopted").await?;
    let nodes = again.nodes().await?;
    assert_eq!(nodes.iter().map(ResourceExt::uid).collect::<Vec<_>>(), uids);
    assert_eq!(nodes.iter().map(|node| node.metadata.generation).collect::<Vec<_>>(), generations);
    Ok(())
}

pub async fn foreign_node_is_not_touched(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let foreign = fixture.create_ready("f-1", |_| {}).await?;
    let fleet = Fleet::create(&fixture, 3, |fleet| {
        fleet["spec"]["template"]["spec"]["image"] = json!(OTHER_IMAGE);
    })
    .await?;
    let found =
        fleet.wait("the others are available", |_, status| status.available_replicas == Some(2)).await?;
    let status = found.status.unwrap_or_default();
    let applied = condition(&status, "SpecApplied").expect("a condition");
    assert_eq!(applied.reason, "NameConflict");
    assert!(applied.message.contains("f-1"), "{}", applied.message);
    let now = fixture.nodes().get("f-1").await?;
    assert_eq!(
        (now.metadata.generation, now.labels(), now.owner_references().len()),
        (foreign.metadata.generation, foreign.labels(), 0)
    );
    Ok(())
}

pub async fn labels_of_others_survive_updates(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let fleet = Fleet::create_available(&fixture, 1, |fleet| {
        fleet["spec"]["template"]["spec"]["overrides"] = json!({ "network.rpc.max_open_connections": "900" });
    })
    .await?;
    let patch = json!({ "metadata": { "labels": { "team": "a" }, "annotations": { "note": "b" } } });
    fixture.edit("f-0", patch).await?;
    fleet
        .edit(json!({ "spec": { "template": { "spec": {
            "image": OTHER_IMAGE, "overrides": { "network.rpc.max_open_connections": null } } } } }))
        .await?;
    fleet.wait_complete("the edit is applied").await?;
    let node = fixture.nodes().get("f-0").await?;
    assert_eq!((node.labels()["team"].as_str(), node.annotations()["note"].as_str()), ("a", "b"));
    assert!(node.spec.overrides.is_empty(), "a removed field is removed: {:?}", node.spec.overrides);
    Ok(())
}
