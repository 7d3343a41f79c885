//! Volumes: made for a node, given to a node, and what becomes of them.

use api::sei_node::SeiNodePhase;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::fakes::kubelet::Claims;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::ground::{Ground, SOON, is_ready, message, reason};
use crate::keys::{NODE_KEY, SIGNING_KEY, both};

/// A claim that somebody made.
#[derive(Clone, Copy)]
struct Given {
    name: &'static str,
    mode: &'static str,
    size: &'static str,
}

impl Given {
    fn new(name: &'static str) -> Self {
        Self { name, mode: "ReadWriteOnce", size: "10Gi" }
    }

    /// Makes the claim.
    async fn claim(
        self,
        ground: &Ground<'_>,
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
        let claim = serde_json::from_value(claim).expect("it is a claim");
        Ok(ground.api().create(&PostParams::default(), &claim).await?)
    }

    /// Makes the claim and a volume for it, and waits until the cluster has bound them.
    async fn bound(self, ground: &Ground<'_>) -> Result<(), Error> {
        let claim = self.claim(ground, |_| {}).await?;
        self.volume(ground, &claim).await?;
        ground.until_object(self.name, "it is bound", is_bound).await.map(drop)
    }

    /// Makes a volume for the claim.
    async fn volume(self, ground: &Ground<'_>, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume_of(ground, self.name) },
            "spec": {
                "accessModes": [self.mode], "storageClassName": "fast", "capacity": { "storage": self.size },
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/nonexistent" },
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": ground.ns, "name": self.name, "uid": claim.uid(),
                },
            },
        });
        let volumes: Api<PersistentVolume> = Api::all(ground.client.clone());
        let volume = serde_json::from_value(volume).expect("it is a volume");
        volumes.create(&PostParams::default(), &volume).await?;
        Ok(())
    }
}

fn volume_of(ground: &Ground<'_>, claim: &str) -> String {
    format!("{}-{claim}", ground.ns)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Makes a node that imports a claim of its own name.
async fn import(ground: &Ground<'_>, name: &str) -> Result<(), Error> {
    ground
        .create(name, |node| node["spec"]["dataVolume"] = json!({ "import": { "pvcName": name } }))
        .await
        .map(drop)
}

async fn set_claim_status(ground: &Ground<'_>, name: &str, status: Value) -> Result<(), Error> {
    let patch = Patch::Merge(json!({ "status": status }));
    ground.api::<PersistentVolumeClaim>().patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

pub async fn a_claim_that_can_never_be_used_fails_the_node_and_says_why(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.kubelets.treat_claims(Claims::Pending);
    let _operator = ground.operator()?;
    Given { mode: "ReadOnlyMany", ..Given::new("readonly") }.bound(&ground).await?;
    Given { size: "9Gi", ..Given::new("small") }.bound(&ground).await?;
    // The cluster itself says that a claim has lost the volume that it was bound to.
    Given::new("lost")
        .claim(&ground, |claim| {
            claim["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
            claim["spec"]["volumeName"] = json!(volume_of(&ground, "never"));
        })
        .await?;
    Given { size: "20Gi", ..Given::new("mismatch") }.bound(&ground).await?;
    set_claim_status(&ground, "mismatch", json!({ "capacity": { "storage": "15Gi" } })).await?;
    let cases = [
        ("readonly", "ReadWriteOnce"),
        ("small", "9Gi"),
        ("lost", "lost its volume"),
        ("mismatch", "finish the resize"),
    ];
    for (name, _) in cases {
        import(&ground, name).await?;
    }
    for (name, why) in cases {
        let node =
            ground.until(name, "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
        let status = node.status.unwrap_or_default();
        assert_eq!(reason(&status, "ImportPVCReady"), "PVCInvalid", "{name}");
        assert!(
            message(&status, "ImportPVCReady").contains(why),
            "{name}: {}",
            message(&status, "ImportPVCReady")
        );
        assert!(message(&status, "Ready").contains(why), "{name}: {}", message(&status, "Ready"));
    }
    Ok(())
}

pub async fn a_claim_that_is_not_there_yet_is_waited_for_and_then_used(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.kubelets.treat_claims(Claims::Pending);
    let _operator = ground.operator()?;
    let pending = Given::new("pending").claim(&ground, |_| {}).await?;
    // A claim that somebody deletes while a finalizer holds it.
    Given::new("going")
        .claim(&ground, |claim| claim["metadata"]["finalizers"] = json!(["example.com/held"]))
        .await?;
    ground.delete::<PersistentVolumeClaim>("going").await?;
    for name in ["nameless", "sizeless"] {
        Given::new(name).claim(&ground, |_| {}).await?;
    }
    set_claim_status(&ground, "nameless", json!({ "phase": "Bound", "capacity": { "storage": "10Gi" } }))
        .await?;
    set_claim_status(&ground, "sizeless", json!({ "phase": "Bound" })).await?;
    Given { mode: "ReadWriteOncePod", ..Given::new("alone") }.bound(&ground).await?;
    let cases = [
        ("missing", "is not there: create it"),
        ("pending", "is Pending, not Bound"),
        ("going", "is being deleted"),
        ("nameless", "names no volume yet"),
        ("sizeless", "does not tell its capacity"),
    ];
    for (name, _) in cases {
        import(&ground, name).await?;
    }
    import(&ground, "alone").await?;
    for (name, why) in cases {
        let told = |status: &api::sei_node::SeiNodeStatus| message(status, "ImportPVCReady").contains(why);
        let node = ground.until(name, why, |_, status| told(status)).await?;
        let status = node.status.unwrap_or_default();
        assert_eq!(reason(&status, "ImportPVCReady"), "PVCNotReady", "{name}");
        let waiting = status.waiting_for.expect("it waits");
        assert_eq!(waiting.target, format!("PersistentVolumeClaim/{name}"));
        assert!(waiting.deadline.0 > waiting.since.0);
        assert_eq!(status.phase, Some(SeiNodePhase::Initializing));
    }
    Given::new("missing").bound(&ground).await?;
    Given::new("pending").volume(&ground, &pending).await?;
    for name in ["missing", "pending", "alone"] {
        let node = ground.until(name, "it uses its volume", is_ready).await?;
        assert_eq!(reason(&node.status.unwrap_or_default(), "ImportPVCReady"), "PVCValidated", "{name}");
    }
    let written = ground.writes()?;
    assert!(written.iter().all(|write| write.resource != "persistentvolumeclaims"), "{written:?}");
    let release = json!({ "metadata": { "finalizers": null } });
    ground
        .api::<PersistentVolumeClaim>()
        .patch("going", &PatchParams::default(), &Patch::Merge(release))
        .await?;
    Ok(())
}

pub async fn a_claim_of_somebody_else_is_not_taken_and_the_node_goes_on_when_it_is_gone(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let foreign = Given::new("data-full").claim(&ground, |_| {}).await?;
    ground.create("full", |_| {}).await?;
    let node =
        ground.until("full", "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
    let said = message(&node.status.unwrap_or_default(), "Ready").to_owned();
    assert!(said.contains("data-full belongs to somebody else"), "{said}");
    let kept = ground.api::<PersistentVolumeClaim>().get("data-full").await?;
    assert_eq!((kept.uid(), kept.owner_references()), (foreign.uid(), [].as_slice()), "it was not touched");
    ground.delete::<PersistentVolumeClaim>("data-full").await?;
    ground.until("full", "it has made its own", is_ready).await?;
    let own = ground.api::<PersistentVolumeClaim>().get("data-full").await?;
    assert_eq!(own.owner_references().first().map(|owner| owner.name.as_str()), Some("full"));
    Ok(())
}

pub async fn deletion_keeps_what_was_given_and_removes_what_was_made(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.kubelets.treat_claims(Claims::Bound);
    ground.secret("signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    ground.secret("node", &[("node_key.json", NODE_KEY)]).await?;
    Given::new("given").bound(&ground).await?;
    let spec = |node: &mut Value| {
        node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "given" } });
        let given = node["spec"].as_object_mut().expect("it has one");
        given.remove("fullNode");
        node["spec"]["validator"] = both("signing", "node");
    };
    ground.running("keeper", spec).await?;
    // One that has the finalizer of the operator before us.
    ground
        .running("full", |node| node["metadata"]["finalizers"] = json!(["sei.io/seinode-finalizer"]))
        .await?;
    for name in ["keeper", "full"] {
        ground.nodes().delete(name, &DeleteParams::default()).await?;
        wait::until(format!("{name} is gone"), SOON, || async {
            match ground.nodes().get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
    }
    wait::until("what was made is gone", SOON, || async {
        let gone = |error: kube::Error| error.to_string();
        let claim = ground.api::<PersistentVolumeClaim>().get_opt("data-full").await.map_err(gone)?;
        let set = ground.api::<StatefulSet>().get_opt("full").await.map_err(gone)?;
        let keeper = ground.api::<StatefulSet>().get_opt("keeper").await.map_err(gone)?;
        if claim.is_none() && set.is_none() && keeper.is_none() {
            Ok(())
        } else {
            Err(format!("claim {}, sets {} {}", claim.is_some(), set.is_some(), keeper.is_some()))
        }
    })
    .await?;
    let kept = ground.api::<PersistentVolumeClaim>().get("given").await?;
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert_eq!(ground.api::<Secret>().get("signing").await?.metadata.deletion_timestamp, None);
    let touched = ground.writes()?;
    let gave = |name: &str| touched.iter().any(|write| write.name == name && write.resource != "seinodes");
    assert!(!gave("given") && !gave("signing"), "{touched:?}");
    Ok(())
}

/// A refusal by somebody's policy, or for want of a right, is no reason to ask ten times a second.
pub async fn a_finalizer_that_may_not_be_removed_is_asked_about_less_and_less(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground
        .running("full", |node| node["metadata"]["finalizers"] = json!(["sei.io/seinode-finalizer"]))
        .await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(ground.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(ground.client.clone());
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": ground.ns } });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": ground.ns },
        "spec": {
            "matchConstraints": {
                "namespaceSelector": here,
                "resourceRules": [{
                    "apiGroups": ["sei.io"], "apiVersions": ["*"], "resources": ["seinodes"], "operations": ["UPDATE"],
                }],
            },
            "validations": [{ "expression": "has(object.metadata.finalizers)", "message": "it stays" }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": ground.ns },
        "spec": { "policyName": ground.ns, "validationActions": ["Deny"] },
    });
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let by_hand = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let tried = PatchParams { dry_run: true, ..PatchParams::default() };
    wait::until("the policy", SOON, || async {
        match ground.nodes().patch("full", &tried, &by_hand).await {
            Err(kube::Error::Api(status)) if status.message.contains("it stays") => Ok(()),
            other => Err(format!("{}", other.is_ok())),
        }
    })
    .await?;
    ground.nodes().delete("full", &DeleteParams::default()).await?;
    let refused = || -> Result<Vec<AuditedRequest>, Error> {
        let requests = ground.requests()?.into_iter();
        Ok(requests
            .filter(|one| one.resource == "seinodes" && one.verb == "patch" && one.code == 422)
            .collect())
    };
    let asked = wait::until("four refusals", SOON, || async {
        let refused = refused().map_err(|error| error.to_string())?;
        if refused.len() >= 4 { Ok(refused) } else { Err(format!("{} so far", refused.len())) }
    })
    .await?;
    let waits: Vec<_> =
        asked.windows(2).map(|pair| pair[1].received.0.duration_since(pair[0].received.0)).collect();
    assert!(
        waits.windows(2).all(|pair| pair[1] > pair[0]),
        "each wait is longer than the one before: {waits:?}"
    );
    bindings.delete(&ground.ns, &DeleteParams::default()).await?;
    wait::until("the node is gone", SOON, || async {
        match ground.nodes().get_opt("full").await {
            Ok(None) => Ok(()),
            other => Err(format!("{}", other.is_ok())),
        }
    })
    .await?;
    policies.delete(&ground.ns, &DeleteParams::default()).await?;
    Ok(())
}
