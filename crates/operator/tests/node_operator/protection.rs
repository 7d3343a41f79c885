//! Data and keys: claims that outlive their node, and objects that only one node may use.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::fakes::kubelet::ClaimPolicy;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT, message, reason};
use crate::keys::{NODE_KEY, SIGNING_KEY, both};

/// How long a refused node is observed: more than a poll interval.
const REFUSED_FOR: Duration = Duration::from_secs(8);

fn make_validator(node: &mut Value, keys: Value) {
    node["spec"].as_object_mut().expect("an object").remove("fullNode");
    node["spec"]["validator"] = keys;
}

fn is_retained(claim: &PersistentVolumeClaim) -> bool {
    claim.owner_references().is_empty() && claim.labels().contains_key("sei.io/retained-by")
}

fn is_owned(claim: &PersistentVolumeClaim) -> bool {
    claim.owner_references().iter().any(|owner| owner.controller == Some(true))
        && !claim.labels().contains_key("sei.io/retained-by")
}

/// Deletes a node as a user does, and waits until its pod and StatefulSet are gone.
async fn delete_node(fixture: &Fixture<'_>, name: &str) -> Result<(), Error> {
    fixture.nodes().delete(name, &DeleteParams::default()).await?;
    wait::until(format!("{name} is deleted"), TIMEOUT, || async {
        let describe = |error: kube::Error| error.to_string();
        let node = fixture.nodes().get_opt(name).await.map_err(describe)?;
        let set = fixture.api::<StatefulSet>().get_opt(name).await.map_err(describe)?;
        let pod = fixture.api::<Pod>().get_opt(&format!("{name}-0")).await.map_err(describe)?;
        if node.is_none() && set.is_none() && pod.is_none() {
            Ok(())
        } else {
            Err(format!("node {}, set {}, pod {}", node.is_some(), set.is_some(), pod.is_some()))
        }
    })
    .await
}

pub async fn retained_claim_is_reported_and_taken_over(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("signer", |node| make_validator(node, json!({}))).await?;
    let is_set_up =
        |claim: &PersistentVolumeClaim| is_retained(claim) && claim.labels().contains_key("sei.io/set-up");
    let claim = fixture.wait_until_object("data-signer", "it is retained", is_set_up).await?;
    fixture.assert_no_writes(Duration::from_secs(2)).await?;
    delete_node(&fixture, "signer").await?;
    let retained = || async {
        let events = fixture.events("signer").await.map_err(|error| error.to_string())?;
        let retained = events.into_iter().filter(|(reason, _)| reason == "DataVolumeRetained");
        Ok::<_, String>(retained.map(|(_, message)| message).collect::<Vec<_>>())
    };
    let events = wait::until("the event", TIMEOUT, || async {
        let events = retained().await?;
        if events.is_empty() { Err("no event".to_owned()) } else { Ok(events) }
    })
    .await?;
    assert!(events[0].contains("PersistentVolumeClaim data-signer is retained"), "{events:?}");
    let left = fixture.api::<PersistentVolumeClaim>().get("data-signer").await?;
    assert_eq!((left.uid(), left.metadata.deletion_timestamp.as_ref()), (claim.uid(), None));
    // A node of another role does not get the data.
    fixture.create("signer", |_| {}).await?;
    let node = fixture.wait_failed("signer").await?;
    let text = message(&node.status.unwrap_or_default(), "Ready").to_owned();
    assert!(text.contains("of role validator, and this node has role node"), "{text}");
    delete_node(&fixture, "signer").await?;
    fixture.create_ready("signer", |node| make_validator(node, json!({}))).await?;
    let adopted = fixture.api::<PersistentVolumeClaim>().get("data-signer").await?;
    assert_eq!((adopted.uid(), is_retained(&adopted)), (claim.uid(), true));
    assert_eq!(retained().await.unwrap_or_default().len(), 2, "once for each deletion");
    Ok(())
}

pub async fn edited_deletion_policy_keeps_the_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let node = fixture.create_ready("full", |_| {}).await?;
    let plan = node.status.and_then(|status| status.plan).map(|plan| plan.id);
    let pod = fixture.pod("full").await?;
    let owned = fixture.api::<PersistentVolumeClaim>().get("data-full").await?;
    assert!(is_owned(&owned), "{:?}", owned.metadata);
    let policy = |policy: &str| json!({ "spec": { "dataVolume": { "deletionPolicy": policy } } });
    fixture.edit("full", policy("Retain")).await?;
    fixture.wait_until_object("data-full", "it is retained", is_retained).await?;
    fixture.edit("full", policy("Delete")).await?;
    fixture.wait_until_object("data-full", "it is owned", is_owned).await?;
    let node = fixture.wait_ready("full", "it is in sync").await?;
    assert_eq!(node.status.and_then(|status| status.plan).map(|plan| plan.id), plan, "no plan");
    assert_eq!((fixture.pod("full").await?.uid(), fixture.pod_deletion_count()?), (pod.uid(), 0));
    fixture.assert_no_writes(Duration::from_secs(2)).await?;
    delete_node(&fixture, "full").await?;
    wait::until("the claim is deleted", TIMEOUT, || async {
        match fixture.api::<PersistentVolumeClaim>().get_opt("data-full").await {
            Ok(None) => Ok(()),
            other => Err(format!("{}", other.is_ok())),
        }
    })
    .await?;
    Ok(())
}

/// The owner reference of the upstream controller belongs to its field manager.
pub async fn owned_claim_of_a_validator_is_retained_after_takeover(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    let node = fixture.create_ready("signer", |node| make_validator(node, json!({}))).await?;
    let pod = fixture.pod("signer").await?;
    operator.kill()?;
    let owner = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "name": "signer", "uid": node.uid(),
        "controller": true, "blockOwnerDeletion": true,
    });
    let labels = json!({ "sei.io/retained-by": null, "sei.io/set-up": null });
    let patch = json!({ "metadata": { "ownerReferences": [owner], "labels": labels } });
    let manager = PatchParams { field_manager: Some("manager".into()), ..PatchParams::default() };
    let claims = fixture.api::<PersistentVolumeClaim>();
    let claim = claims.patch("data-signer", &manager, &Patch::Merge(patch)).await?;
    assert!(is_owned(&claim), "{:?}", claim.metadata);
    let operator = fixture.start_operator()?;
    fixture.wait_until_object("data-signer", "it is retained", is_retained).await?;
    assert_eq!((fixture.pod("signer").await?.uid(), fixture.pod_deletion_count()?), (pod.uid(), 0));
    // Without an operator, the label is what remains.
    operator.kill()?;
    delete_node(&fixture, "signer").await?;
    let left = claims.get("data-signer").await?;
    assert!(left.uid() == claim.uid() && is_retained(&left) && left.metadata.deletion_timestamp.is_none());
    Ok(())
}

/// Two nodes that are created before the operator starts: it decides about both from one cache.
pub async fn second_node_with_a_signing_key_is_refused(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.put_secret("signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    for name in ["one", "two"] {
        let identity = format!("{name}-identity");
        fixture.put_secret(&identity, &[("node_key.json", NODE_KEY)]).await?;
        fixture.create(name, |node| make_validator(node, both("signing", &identity))).await?;
    }
    let operator = fixture.start_operator()?;
    fixture.wait_ready("one", "it signs").await?;
    assert_refused(&fixture, "one", "two").await?;
    let events = fixture.events("two").await?;
    assert_eq!(events.iter().filter(|(reason, _)| reason == "SigningKeyInUse").count(), 1, "{events:?}");
    operator.kill()?;
    let _operator = fixture.start_operator()?;
    assert_refused(&fixture, "one", "two").await?;
    // The pod of the deleted node may still sign until it is gone.
    let hold = |finalizers: Value| Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let pods = fixture.api::<Pod>();
    pods.patch("one-0", &PatchParams::default(), &hold(json!(["example.com/held"]))).await?;
    fixture.nodes().delete("one", &DeleteParams::default()).await?;
    wait::until("only the terminating pod is left", TIMEOUT, || async {
        let set = fixture.api::<StatefulSet>().get_opt("one").await.map_err(|error| error.to_string())?;
        let pod = pods.get("one-0").await.map_err(|error| error.to_string())?;
        match (set, pod.metadata.deletion_timestamp) {
            (None, Some(_)) => Ok(()),
            (set, deletion) => Err(format!("StatefulSet exists: {}, deletion: {deletion:?}", set.is_some())),
        }
    })
    .await?;
    assert_refused(&fixture, "one", "two").await?;
    pods.patch("one-0", &PatchParams::default(), &hold(Value::Null)).await?;
    let node = fixture.wait_ready("two", "it signs").await?;
    assert_eq!(reason(&node.status.unwrap_or_default(), "SigningKeyReady"), "SigningKeyValidated");
    Ok(())
}

/// Fails if the second node is not refused because of the first, or gets a pod.
async fn assert_refused(fixture: &Fixture<'_>, first: &str, second: &str) -> Result<(), Error> {
    let text = format!("SeiNode {first}");
    let is_refused = |status: &api::sei_node::SeiNodeStatus| {
        reason(status, "SigningKeyReady") == "SigningKeyInUse"
            && message(status, "SigningKeyReady").contains(&text)
    };
    fixture.wait_until(second, "it is refused", |_, status| is_refused(status)).await?;
    wait::throughout("no StatefulSet of the second node", REFUSED_FOR, || async {
        match fixture.api::<StatefulSet>().get_opt(second).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err("it exists".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

pub async fn imported_claim_of_another_node_is_refused(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.kubelets.set_claim_policy(ClaimPolicy::BoundToVolume);
    let _operator = fixture.start_operator()?;
    fixture.create_ready("one", |_| {}).await?;
    fixture
        .create("two", |node| node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "data-one" } }))
        .await?;
    let is_refused = |status: &api::sei_node::SeiNodeStatus| {
        reason(status, "ImportPVCReady") == "PVCInUse"
            && message(status, "ImportPVCReady")
                .contains("PersistentVolumeClaim data-one is used by SeiNode one")
    };
    fixture.wait_until("two", "it is refused", |_, status| is_refused(status)).await?;
    assert!(fixture.api::<StatefulSet>().get_opt("two").await?.is_none());
    // The claim outlives its node, and is free then.
    fixture.edit("one", json!({ "spec": { "dataVolume": { "deletionPolicy": "Retain" } } })).await?;
    fixture.wait_until_object("data-one", "it is retained", is_retained).await?;
    let claim = fixture.api::<PersistentVolumeClaim>().get("data-one").await?;
    delete_node(&fixture, "one").await?;
    fixture.wait_ready("two", "it uses the volume").await?;
    let kept = fixture.api::<PersistentVolumeClaim>().get("data-one").await?;
    assert_eq!((kept.uid(), is_retained(&kept)), (claim.uid(), true));
    Ok(())
}
