//! Data volumes: created for a node, imported by a node, and their deletion.

use std::time::Duration;

use api::SeiNode;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::fakes::kubelet::ClaimPolicy;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT, message, reason};
use crate::keys::{NODE_KEY, SIGNING_KEY, both};
use crate::policy::Policy;

/// A claim that a user created.
#[derive(Clone, Copy)]
struct UserClaim {
    name: &'static str,
    mode: &'static str,
    size: &'static str,
}

impl UserClaim {
    fn new(name: &'static str) -> Self {
        Self { name, mode: "ReadWriteOnce", size: "10Gi" }
    }

    /// Creates the claim.
    async fn create(
        self,
        fixture: &Fixture<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<PersistentVolumeClaim, Error> {
        let mut claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": self.name },
            "spec": {
                "accessModes": [self.mode], "storageClassName": "fast",
                "resources": { "requests": { "storage": self.size } },
            },
        });
        change(&mut claim);
        let claim = serde_json::from_value(claim).expect("a valid claim");
        Ok(fixture.api().create(&PostParams::default(), &claim).await?)
    }

    /// Creates the claim and a volume for it, and waits until they are bound.
    async fn create_bound(self, fixture: &Fixture<'_>) -> Result<(), Error> {
        let claim = self.create(fixture, |_| {}).await?;
        self.create_volume(fixture, &claim).await?;
        fixture.wait_until_object(self.name, "it is bound", is_bound).await.map(drop)
    }

    /// Creates a volume for the claim.
    async fn create_volume(self, fixture: &Fixture<'_>, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume_name(fixture, self.name) },
            "spec": {
                "accessModes": [self.mode], "storageClassName": "fast", "capacity": { "storage": self.size },
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/nonexistent" },
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": fixture.ns, "name": self.name, "uid": claim.uid(),
                },
            },
        });
        let volumes: Api<PersistentVolume> = Api::all(fixture.client.clone());
        let volume = serde_json::from_value(volume).expect("a valid volume");
        volumes.create(&PostParams::default(), &volume).await?;
        Ok(())
    }
}

fn volume_name(fixture: &Fixture<'_>, claim: &str) -> String {
    format!("{}-{claim}", fixture.ns)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Creates a node that imports the claim with its name.
async fn import(fixture: &Fixture<'_>, name: &str) -> Result<(), Error> {
    fixture
        .create(name, |node| node["spec"]["dataVolume"] = json!({ "import": { "pvcName": name } }))
        .await
        .map(drop)
}

async fn set_claim_status(fixture: &Fixture<'_>, name: &str, status: Value) -> Result<(), Error> {
    let patch = Patch::Merge(json!({ "status": status }));
    fixture.api::<PersistentVolumeClaim>().patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

pub async fn unusable_claim_fails_the_node(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.kubelets.set_claim_policy(ClaimPolicy::Pending);
    let _operator = fixture.start_operator()?;
    UserClaim { mode: "ReadOnlyMany", ..UserClaim::new("readonly") }.create_bound(&fixture).await?;
    UserClaim { size: "9Gi", ..UserClaim::new("small") }.create_bound(&fixture).await?;
    // The cluster sets the claim to Lost: the volume that it was bound to does not exist.
    UserClaim::new("lost")
        .create(&fixture, |claim| {
            claim["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
            claim["spec"]["volumeName"] = json!(volume_name(&fixture, "never"));
        })
        .await?;
    UserClaim { size: "20Gi", ..UserClaim::new("mismatch") }.create_bound(&fixture).await?;
    set_claim_status(&fixture, "mismatch", json!({ "capacity": { "storage": "15Gi" } })).await?;
    let cases = [
        ("readonly", "ReadWriteOnce"),
        ("small", "9Gi"),
        ("lost", "lost its volume"),
        ("mismatch", "finish the resize"),
    ];
    for (name, _) in cases {
        import(&fixture, name).await?;
    }
    for (name, text) in cases {
        let node = fixture.wait_failed(name).await?;
        let status = node.status.unwrap_or_default();
        assert_eq!(reason(&status, "ImportPVCReady"), "PVCInvalid", "{name}");
        assert!(
            message(&status, "ImportPVCReady").contains(text),
            "{name}: {}",
            message(&status, "ImportPVCReady")
        );
        assert!(message(&status, "Ready").contains(text), "{name}: {}", message(&status, "Ready"));
    }
    Ok(())
}

pub async fn unready_claim_is_waited_for(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.kubelets.set_claim_policy(ClaimPolicy::Pending);
    let _operator = fixture.start_operator()?;
    let pending = UserClaim::new("pending").create(&fixture, |_| {}).await?;
    // A deleted claim that a finalizer keeps terminating.
    UserClaim::new("terminating")
        .create(&fixture, |claim| claim["metadata"]["finalizers"] = json!(["example.com/held"]))
        .await?;
    fixture.delete::<PersistentVolumeClaim>("terminating").await?;
    for name in ["unnamed", "unsized"] {
        UserClaim::new(name).create(&fixture, |_| {}).await?;
    }
    set_claim_status(&fixture, "unnamed", json!({ "phase": "Bound", "capacity": { "storage": "10Gi" } }))
        .await?;
    set_claim_status(&fixture, "unsized", json!({ "phase": "Bound" })).await?;
    UserClaim { mode: "ReadWriteOncePod", ..UserClaim::new("single-pod") }.create_bound(&fixture).await?;
    let cases = [
        ("missing", "not found: create it"),
        ("pending", "is Pending, not Bound"),
        ("terminating", "is being deleted"),
        ("unnamed", "has no volumeName yet"),
        ("unsized", "reports no capacity"),
    ];
    for (name, _) in cases {
        import(&fixture, name).await?;
    }
    import(&fixture, "single-pod").await?;
    for (name, text) in cases {
        let is_reported =
            |status: &api::sei_node::SeiNodeStatus| message(status, "ImportPVCReady").contains(text);
        let node = fixture.wait_until(name, text, |_, status| is_reported(status)).await?;
        let status = node.status.unwrap_or_default();
        assert_eq!(reason(&status, "ImportPVCReady"), "PVCNotReady", "{name}");
        let waiting = status.waiting_for.expect("a waiting node");
        assert_eq!(waiting.target, format!("PersistentVolumeClaim/{name}"));
        assert!(waiting.deadline.0 > waiting.since.0);
        assert_eq!(status.phase, Some(SeiNodePhase::Initializing));
    }
    UserClaim::new("missing").create_bound(&fixture).await?;
    UserClaim::new("pending").create_volume(&fixture, &pending).await?;
    for name in ["missing", "pending", "single-pod"] {
        let node = fixture.wait_ready(name, "it uses the imported volume").await?;
        assert_eq!(reason(&node.status.unwrap_or_default(), "ImportPVCReady"), "PVCValidated", "{name}");
    }
    let writes = fixture.writes()?;
    assert!(writes.iter().all(|write| write.resource != "persistentvolumeclaims"), "{writes:?}");
    let release = json!({ "metadata": { "finalizers": null } });
    fixture
        .api::<PersistentVolumeClaim>()
        .patch("terminating", &PatchParams::default(), &Patch::Merge(release))
        .await?;
    Ok(())
}

pub async fn foreign_claim_is_not_adopted(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let foreign = UserClaim::new("data-full").create(&fixture, |_| {}).await?;
    fixture.create("full", |_| {}).await?;
    let node = fixture.wait_failed("full").await?;
    let text = message(&node.status.unwrap_or_default(), "Ready").to_owned();
    assert!(text.contains("data-full is not owned by this SeiNode"), "{text}");
    let kept = fixture.api::<PersistentVolumeClaim>().get("data-full").await?;
    assert_eq!((kept.uid(), kept.owner_references()), (foreign.uid(), [].as_slice()), "it is unchanged");
    fixture.delete::<PersistentVolumeClaim>("data-full").await?;
    fixture.wait_ready("full", "it created its own claim").await?;
    let own = fixture.api::<PersistentVolumeClaim>().get("data-full").await?;
    assert_eq!(own.owner_references().first().map(|owner| owner.name.as_str()), Some("full"));
    Ok(())
}

pub async fn node_deletion_keeps_imported_and_deletes_created_objects(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.kubelets.set_claim_policy(ClaimPolicy::Bound);
    fixture.put_secret("signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    fixture.put_secret("node", &[("node_key.json", NODE_KEY)]).await?;
    UserClaim::new("imported").create_bound(&fixture).await?;
    let validator = |node: &mut Value| {
        node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "imported" } });
        let spec = node["spec"].as_object_mut().expect("an object");
        spec.remove("fullNode");
        node["spec"]["validator"] = both("signing", "node");
    };
    fixture.create_ready("keeper", validator).await?;
    // A node with the finalizer of the upstream controller.
    fixture
        .create_ready("full", |node| node["metadata"]["finalizers"] = json!(["sei.io/seinode-finalizer"]))
        .await?;
    for name in ["keeper", "full"] {
        fixture.nodes().delete(name, &DeleteParams::default()).await?;
        wait::until(format!("{name} is deleted"), TIMEOUT, || async {
            match fixture.nodes().get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
    }
    wait::until("the created objects are deleted", TIMEOUT, || async {
        let describe = |error: kube::Error| error.to_string();
        let claim = fixture.api::<PersistentVolumeClaim>().get_opt("data-full").await.map_err(describe)?;
        let set = fixture.api::<StatefulSet>().get_opt("full").await.map_err(describe)?;
        let keeper = fixture.api::<StatefulSet>().get_opt("keeper").await.map_err(describe)?;
        if claim.is_none() && set.is_none() && keeper.is_none() {
            Ok(())
        } else {
            Err(format!("claim {}, sets {} {}", claim.is_some(), set.is_some(), keeper.is_some()))
        }
    })
    .await?;
    let kept = fixture.api::<PersistentVolumeClaim>().get("imported").await?;
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert_eq!(fixture.api::<Secret>().get("signing").await?.metadata.deletion_timestamp, None);
    let writes = fixture.writes()?;
    let is_written =
        |name: &str| writes.iter().any(|write| write.name == name && write.resource != "seinodes");
    assert!(!is_written("imported") && !is_written("signing"), "{writes:?}");
    Ok(())
}

/// Creates a StorageClass and returns its name.
async fn create_class(fixture: &Fixture<'_>, name: &str, is_expandable: bool) -> Result<String, Error> {
    let name = format!("{}-{name}", fixture.ns);
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": "none.example", "allowVolumeExpansion": is_expandable,
    });
    let classes: Api<StorageClass> = Api::all(fixture.client.clone());
    let class = serde_json::from_value(class).expect("a valid class");
    classes.create(&PostParams::default(), &class).await?;
    Ok(name)
}

/// Returns the size that a claim requests.
fn requested(claim: &PersistentVolumeClaim) -> &str {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let size = resources.and_then(|resources| resources.requests.as_ref()?.get("storage"));
    size.map(|size| size.0.as_str()).unwrap_or_default()
}

/// Edits the size of a node's volume, and waits for a reason of StorageReady.
async fn resize(fixture: &Fixture<'_>, name: &str, size: &str, expected: &str) -> Result<SeiNode, Error> {
    fixture.edit(name, json!({ "spec": { "storage": { "size": size } } })).await?;
    let what = format!("StorageReady is {expected} for {size}");
    let is_reported = |node: &SeiNode, status: &SeiNodeStatus| {
        reason(status, "StorageReady") == expected && status.observed_generation == node.metadata.generation
    };
    fixture.wait_until(name, &what, is_reported).await
}

pub async fn larger_size_is_applied_in_place_if_the_class_allows_it(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.kubelets.set_claim_policy(ClaimPolicy::BoundToVolume);
    let _operator = fixture.start_operator()?;
    let mut plans = Vec::new();
    for (name, is_expandable) in [("grows", true), ("fixed", false)] {
        let class = create_class(&fixture, name, is_expandable).await?;
        let storage = json!({ "size": "5Gi", "storageClassName": class });
        let node = fixture.create_ready(name, |node| node["spec"]["storage"] = storage).await?;
        fixture.wait_until_object(&format!("data-{name}"), "it is bound", is_bound).await?;
        plans.push(node.status.unwrap_or_default().plan.map(|plan| plan.id));
    }
    let claims = fixture.api::<PersistentVolumeClaim>();

    // There is no driver: the capacity stays until the test changes it.
    resize(&fixture, "grows", "8Gi", "Resizing").await?;
    let claim = claims.get("data-grows").await?;
    assert_eq!(requested(&claim), "8Gi");
    assert!(claim.finalizers().iter().any(|name| name == "kubernetes.io/pvc-protection"), "{claim:?}");
    fixture.wait_ready("grows", "the size is applied").await?;
    set_claim_status(&fixture, "data-grows", json!({ "capacity": { "storage": "8Gi" } })).await?;
    let is_sized = |_: &SeiNode, status: &SeiNodeStatus| reason(status, "StorageReady") == "VolumeSized";
    fixture.wait_until("grows", "its volume is resized", is_sized).await?;

    let node = resize(&fixture, "fixed", "8Gi", "ExpansionRefused").await?;
    let status = node.status.unwrap_or_default();
    // The message of the API server.
    assert!(message(&status, "StorageReady").contains("storageclass that provisions the pvc"), "{status:?}");
    assert_eq!(reason(&status, "SpecApplied"), "WriteRefused", "{status:?}");
    assert_eq!(requested(&claims.get("data-fixed").await?), "5Gi");
    resize(&fixture, "fixed", "5Gi", "VolumeSized").await?;
    fixture.wait_ready("fixed", "the size is set back").await?;

    let node = resize(&fixture, "grows", "2Gi", "ShrinkRefused").await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(reason(&status, "SpecApplied"), "SpecInvalid");
    assert!(
        message(&status, "SpecApplied").starts_with("spec.storage.size: 2Gi is less than the 8Gi"),
        "{status:?}"
    );
    assert_eq!(requested(&claims.get("data-grows").await?), "8Gi");
    resize(&fixture, "grows", "8Gi", "VolumeSized").await?;
    fixture.wait_ready("grows", "the size is set back").await?;

    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(fixture.pod_deletion_count()?, 0);
    for (name, plan) in ["grows", "fixed"].into_iter().zip(plans) {
        let status = fixture.nodes().get(name).await?.status.unwrap_or_default();
        assert_eq!(status.plan.map(|plan| plan.id), plan, "{name} needs no plan");
    }
    Ok(())
}

/// Kubernetes keeps a deleted claim as long as a pod uses it, so an edit must not replace the pod.
pub async fn pod_is_kept_while_its_claim_is_being_deleted(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let pod = fixture.pod("full").await?;
    let claims = fixture.api::<PersistentVolumeClaim>();
    claims.delete("data-full", &DeleteParams::default()).await?;
    assert!(claims.get("data-full").await?.metadata.deletion_timestamp.is_some(), "protected by its pod");
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = fixture
        .wait_until("full", "the claim is reported", |node, status| {
            reason(status, "Ready") == "DataVolumeTerminating"
                && status.observed_generation == node.metadata.generation
        })
        .await?;
    let status = node.status.unwrap_or_default();
    assert!(message(&status, "Ready").contains("PersistentVolumeClaim data-full"), "{status:?}");
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(fixture.pod_deletion_count()?, 0);
    assert_eq!(fixture.pod("full").await?.uid(), pod.uid());
    let events = fixture.events("full").await?;
    assert_eq!(
        events.iter().filter(|(reason, _)| reason == "DataVolumeTerminating").count(),
        1,
        "{events:?}"
    );
    Ok(())
}

/// A write rejected by an admission policy or RBAC must not be retried ten times a second.
pub async fn rejected_finalizer_removal_is_retried_with_backoff(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture
        .create_ready("full", |node| node["metadata"]["finalizers"] = json!(["sei.io/seinode-finalizer"]))
        .await?;
    let rule = json!({
        "apiGroups": ["sei.io"], "apiVersions": ["*"], "resources": ["seinodes"], "operations": ["UPDATE"],
    });
    let required =
        json!({ "expression": "has(object.metadata.finalizers)", "message": "finalizer is required" });
    let policy = Policy::deny_unless(&fixture, rule, required).await?;
    let removal = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    wait::until("the policy", TIMEOUT, || async {
        match fixture.nodes().patch("full", &dry_run, &removal).await {
            Err(kube::Error::Api(status)) if status.message.contains("finalizer is required") => Ok(()),
            other => Err(format!("{}", other.is_ok())),
        }
    })
    .await?;
    fixture.nodes().delete("full", &DeleteParams::default()).await?;
    let rejected = || -> Result<Vec<AuditedRequest>, Error> {
        let requests = fixture.requests()?.into_iter();
        Ok(requests
            .filter(|one| one.resource == "seinodes" && one.verb == "patch" && one.code == 422)
            .collect())
    };
    let requests = wait::until("four rejected requests", TIMEOUT, || async {
        let rejected = rejected().map_err(|error| error.to_string())?;
        if rejected.len() >= 4 { Ok(rejected) } else { Err(format!("{} so far", rejected.len())) }
    })
    .await?;
    // Jitter shortens a backoff of 200, 400, 800 ms by at most a half; a busy machine makes the waits longer. The first refusal is
    // stored in the status, and the event of that write may wake the node once before its backoff has passed.
    for (pair, shortest) in requests.windows(2).skip(1).zip([200, 400]) {
        let waited = pair[1].received.0.duration_since(pair[0].received.0);
        assert!(waited.as_millis() >= shortest, "retried after {waited:?}, expected at least {shortest} ms");
    }
    let node = fixture
        .wait_until("full", "the refusal is reported", |_, status| {
            reason(status, "SpecApplied") == "WriteRefused"
                && message(status, "SpecApplied").contains("finalizer is required")
        })
        .await?;
    assert_eq!(reason(&node.status.unwrap_or_default(), "Ready"), "Terminating");
    policy.remove().await?;
    wait::until("the node is deleted", TIMEOUT, || async {
        match fixture.nodes().get_opt("full").await {
            Ok(None) => Ok(()),
            other => Err(format!("{}", other.is_ok())),
        }
    })
    .await?;
    Ok(())
}
