//! What belongs to a node and is damaged is put back, and told.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::ground::{Ground, SOON, is_ready};

/// Waits until it was told how often something of a node was put back.
async fn told(ground: &Ground<'_>, sentence: &str, times: usize) -> Result<(), Error> {
    wait::until(format!("{sentence:?} {times} times"), SOON, || async {
        let events = ground.events("full").await.map_err(|error| error.to_string())?;
        let restored =
            events.iter().filter(|(reason, note)| reason == "ObjectRestored" && note.contains(sentence));
        match restored.count() {
            count if count == times => Ok(()),
            count => Err(format!("{count} times: {events:?}")),
        }
    })
    .await
}

/// Deletes an object, and waits until another one has taken its place.
async fn delete_and_find<K>(ground: &Ground<'_>, name: &str, how: &DeleteParams) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let before = ground.api::<K>().get(name).await?;
    ground.api::<K>().delete(name, how).await?;
    ground.until_object::<K>(name, "it is put back", |now| now.uid() != before.uid()).await?;
    told(ground, &format!("{} {name} was deleted and is put back", K::kind(&())), 1).await
}

pub async fn each_deleted_object_is_put_back_and_told_without_a_new_pod(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let pod = ground.pod("full").await?;
    let background = DeleteParams::background();
    delete_and_find::<Service>(&ground, "full", &background).await?;
    delete_and_find::<ConfigMap>(&ground, "full-rbac-proxy-config", &background).await?;
    delete_and_find::<NetworkPolicy>(&ground, "full", &background).await?;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    delete_and_find::<StatefulSet>(&ground, "full", &orphan).await?;
    ground.until("full", "it is ready", is_ready).await?;
    ground.rests(Duration::from_secs(3)).await?;
    assert_eq!(ground.pod("full").await?.uid(), pod.uid(), "the template never changed for good");
    assert_eq!(ground.pod_deletions()?, 0);
    Ok(())
}

/// Changes an object by hand, and waits until it is as it was.
async fn change_and_find<K>(ground: &Ground<'_>, name: &str, change: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let content = |object: &K| {
        let object = serde_json::to_value(object).expect("an object can be written");
        (object["spec"].clone(), object["data"].clone())
    };
    let before = ground.api::<K>().get(name).await?;
    let by_hand = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    let changed = ground.api::<K>().patch(name, &by_hand, &Patch::Merge(change)).await?;
    assert!(content(&changed) != content(&before), "the change is one");
    ground.until_object::<K>(name, "it is put back", |now| content(now) == content(&before)).await?;
    told(ground, &format!("{} {name} was changed and is put back", K::kind(&())), 1).await
}

pub async fn each_object_that_was_changed_by_hand_is_put_back_and_told_without_a_new_pod(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let pod = ground.pod("full").await?;
    let selector = json!({ "spec": { "selector": { "sei.io/node": "another" } } });
    change_and_find::<Service>(&ground, "full", selector).await?;
    let open = json!({ "data": { "config.yaml": "authorization: {}" } });
    change_and_find::<ConfigMap>(&ground, "full-rbac-proxy-config", open).await?;
    let template = json!({ "spec": { "template": { "spec": { "serviceAccountName": "default" } } } });
    change_and_find::<StatefulSet>(&ground, "full", template).await?;
    ground.until("full", "it is ready", is_ready).await?;
    ground.rests(Duration::from_secs(3)).await?;
    assert_eq!(ground.pod("full").await?.uid(), pod.uid(), "the pod's own template never changed");
    assert_eq!(ground.pod_deletions()?, 0);
    Ok(())
}

pub async fn a_stateful_set_that_was_deleted_with_its_pod_comes_back_with_another(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let pod = ground.pod("full").await?;
    delete_and_find::<StatefulSet>(&ground, "full", &DeleteParams::background()).await?;
    ground
        .until_object::<Pod>("full-0", "another pod is there", |now| {
            now.uid() != pod.uid() && now.metadata.deletion_timestamp.is_none()
        })
        .await?;
    ground.until("full", "it is ready again", is_ready).await?;
    ground.sidecar("full").wait_ready(SOON).await?;
    assert_eq!(ground.pod_deletions_of("full").await?, 0);
    Ok(())
}
