//! Rollouts: the budget, failures and revisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::names::annotation;
use futures_util::TryStreamExt;
use kube::ResourceExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::json;
use testbed::fakes::kubelet::ContainerFailure;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, IMAGE, OTHER_IMAGE, is_pod_deletion};
use crate::fleet::{Fleet, condition, has_reason};

/// The operator is killed while nodes are updated. Each pod is replaced once, and never more than two at a time.
pub async fn rollout_keeps_the_budget_with_a_killed_operator(cx: Context) -> TestResult {
    const NODES: i32 = 8;
    let fixture = Fixture::new(&cx).await?;
    let mut operator = fixture.start_operator()?;
    let fleet = Fleet::create_available(&fixture, NODES, |fleet| {
        fleet["spec"]["updateStrategy"]["maxUnavailable"] = json!(2);
    })
    .await?;
    let before = pod_deletions(&fixture)?;
    let watcher = AvailabilityWatch::start(&fixture).await?;
    fleet.edit_image(OTHER_IMAGE).await?;
    for updated in 1..=3 {
        fleet.wait("nodes are updated", |_, status| status.updated_replicas >= Some(updated * 2)).await?;
        operator.kill()?;
        operator = fixture.start_operator()?;
    }
    fleet.wait_complete("the rollout is complete").await?;
    let most = watcher.most_unavailable().await;
    assert!((1..=2).contains(&most), "{most} nodes were unavailable at a time");
    let mut deletions = pod_deletions(&fixture)?;
    deletions.retain(|pod, count| {
        *count -= before.get(pod).copied().unwrap_or_default();
        *count > 0
    });
    assert_eq!(deletions.len(), usize::try_from(NODES)?, "{deletions:?}");
    assert!(deletions.values().all(|count| *count == 1), "{deletions:?}");
    operator.check_alive()?;
    Ok(())
}

/// Returns how often each pod was deleted.
fn pod_deletions(fixture: &Fixture<'_>) -> Result<BTreeMap<String, usize>, Error> {
    let mut deletions = BTreeMap::new();
    for request in fixture.requests()?.into_iter().filter(is_pod_deletion) {
        *deletions.entry(request.name).or_default() += 1;
    }
    Ok(deletions)
}

/// Follows every version of the nodes, and counts how many are not ready at a time.
struct AvailabilityWatch {
    most: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl AvailabilityWatch {
    async fn start(fixture: &Fixture<'_>) -> Result<Self, Error> {
        let nodes = fixture.nodes();
        let listed = nodes.list(&ListParams::default()).await?;
        let version = listed.metadata.resource_version.unwrap_or_default();
        let mut known: BTreeMap<String, bool> =
            listed.items.iter().map(|node| (node.name_any(), is_available(node))).collect();
        let most = Arc::new(AtomicUsize::new(0));
        let events = nodes.watch(&WatchParams::default(), &version).await?;
        let task = {
            let most = most.clone();
            tokio::spawn(async move {
                let mut events = std::pin::pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    if let WatchEvent::Added(node) | WatchEvent::Modified(node) = event {
                        known.insert(node.name_any(), is_available(&node));
                        most.fetch_max(known.values().filter(|is| !**is).count(), Ordering::Relaxed);
                    }
                }
            })
        };
        Ok(Self { most, task })
    }

    async fn most_unavailable(self) -> usize {
        self.task.abort();
        let _ = self.task.await;
        self.most.load(Ordering::Relaxed)
    }
}

fn is_available(node: &api::SeiNode) -> bool {
    let conditions = node.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub async fn bad_image_stalls_after_one_node_and_the_next_edit_fixes_it(cx: Context) -> TestResult {
    const BAD: &str = "images.example/sei:missing";
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let fleet = Fleet::create_available(&fixture, 3, |fleet| {
        fleet["spec"]["progressDeadlineSeconds"] = json!(60);
    })
    .await?;
    fixture.kubelets.fail_image(BAD, ContainerFailure::ImagePullBackOff("manifest unknown".into()));
    fleet.edit_image(BAD).await?;
    let stalled = fleet
        .wait("the rollout is stalled", |_, status| has_reason(status, "RolloutInProgress", "RolloutStalled"))
        .await?;
    let status = stalled.status.unwrap_or_default();
    let message = &condition(&status, "RolloutInProgress").expect("a condition").message;
    assert!(message.starts_with("Updated 1/3, Unavailable 1, stalled by f-2: "), "{message}");
    assert_eq!(fleet.with_image(BAD).await?, ["f-2"]);
    fleet.edit_image(OTHER_IMAGE).await?;
    fleet.wait_complete("the good image is everywhere").await?;
    assert_eq!(fleet.with_image(OTHER_IMAGE).await?.len(), 3);
    Ok(())
}

pub async fn revision_returns_by_annotation(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let fleet = Fleet::create_available(&fixture, 2, |_| {}).await?;
    let first = fleet.get().await?.status.and_then(|status| status.current_revision).expect("a revision");
    fleet.edit_image(OTHER_IMAGE).await?;
    fleet.wait_complete("the edit is applied").await?;
    fleet.edit(json!({ "metadata": { "annotations": { annotation::ROLLBACK_TO: first } } })).await?;
    fleet
        .wait("the first revision is back", |_, status| {
            status.current_revision.as_ref() == Some(&first)
                && has_reason(status, "SpecApplied", "RolledBack")
        })
        .await?;
    assert_eq!(fleet.with_image(IMAGE).await?.len(), 2);
    let nodes = fleet.nodes().await?;
    assert!(nodes.iter().all(|node| node.labels()["sei.io/revision"] == first));
    wait::throughout("it stays", Duration::from_secs(2), || async {
        let images = fleet.with_image(IMAGE).await.map_err(|error| error.to_string())?;
        if images.len() == 2 { Ok(()) } else { Err(format!("{images:?}")) }
    })
    .await?;
    Ok(())
}
