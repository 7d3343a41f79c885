//! Deleted and modified objects of a node are restored, with an event.

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

use crate::fixture::{Fixture, TIMEOUT};

/// Waits until an ObjectRestored event was recorded this many times.
async fn wait_restored_event(fixture: &Fixture<'_>, text: &str, times: usize) -> Result<(), Error> {
    wait::until(format!("{text:?} {times} times"), TIMEOUT, || async {
        let events = fixture.events("full").await.map_err(|error| error.to_string())?;
        let restored =
            events.iter().filter(|(reason, note)| reason == "ObjectRestored" && note.contains(text));
        match restored.count() {
            count if count == times => Ok(()),
            count => Err(format!("{count} times: {events:?}")),
        }
    })
    .await
}

/// Deletes an object, and waits until it is restored.
async fn delete_and_wait<K>(fixture: &Fixture<'_>, name: &str, params: &DeleteParams) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let before = fixture.api::<K>().get(name).await?;
    fixture.api::<K>().delete(name, params).await?;
    fixture.wait_until_object::<K>(name, "it is restored", |now| now.uid() != before.uid()).await?;
    wait_restored_event(fixture, &format!("{} {name} was deleted and has been restored", K::kind(&())), 1)
        .await
}

pub async fn deleted_objects_are_restored_without_a_new_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let pod = fixture.pod("full").await?;
    let background = DeleteParams::background();
    delete_and_wait::<Service>(&fixture, "full", &background).await?;
    delete_and_wait::<ConfigMap>(&fixture, "full-rbac-proxy-config", &background).await?;
    delete_and_wait::<NetworkPolicy>(&fixture, "full", &background).await?;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    delete_and_wait::<StatefulSet>(&fixture, "full", &orphan).await?;
    fixture.wait_ready("full", "it is ready").await?;
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(fixture.pod("full").await?.uid(), pod.uid(), "the pod was not replaced");
    assert_eq!(fixture.pod_deletion_count()?, 0);
    Ok(())
}

/// Modifies an object, and waits until it is restored.
async fn modify_and_wait<K>(fixture: &Fixture<'_>, name: &str, change: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let content = |object: &K| {
        let object = serde_json::to_value(object).expect("a serializable object");
        (object["spec"].clone(), object["data"].clone())
    };
    let before = fixture.api::<K>().get(name).await?;
    let as_user = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    let changed = fixture.api::<K>().patch(name, &as_user, &Patch::Merge(change)).await?;
    assert!(content(&changed) != content(&before), "the patch changes the object");
    fixture.wait_until_object::<K>(name, "it is restored", |now| content(now) == content(&before)).await?;
    wait_restored_event(fixture, &format!("{} {name} was modified and has been restored", K::kind(&())), 1)
        .await
}

pub async fn modified_objects_are_restored_without_a_new_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let pod = fixture.pod("full").await?;
    let selector = json!({ "spec": { "selector": { "sei.io/node": "another" } } });
    modify_and_wait::<Service>(&fixture, "full", selector).await?;
    let open = json!({ "data": { "config.yaml": "authorization: {}" } });
    modify_and_wait::<ConfigMap>(&fixture, "full-rbac-proxy-config", open).await?;
    let template = json!({ "spec": { "template": { "spec": { "serviceAccountName": "default" } } } });
    modify_and_wait::<StatefulSet>(&fixture, "full", template).await?;
    fixture.wait_ready("full", "it is ready").await?;
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(fixture.pod("full").await?.uid(), pod.uid(), "the pod was not replaced");
    assert_eq!(fixture.pod_deletion_count()?, 0);
    Ok(())
}

pub async fn deleted_stateful_set_is_restored_with_a_new_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let pod = fixture.pod("full").await?;
    delete_and_wait::<StatefulSet>(&fixture, "full", &DeleteParams::background()).await?;
    fixture
        .wait_until_object::<Pod>("full-0", "a new pod exists", |now| {
            now.uid() != pod.uid() && now.metadata.deletion_timestamp.is_none()
        })
        .await?;
    fixture.wait_ready("full", "it is ready again").await?;
    fixture.sidecar("full").wait_ready(TIMEOUT).await?;
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 0);
    Ok(())
}
