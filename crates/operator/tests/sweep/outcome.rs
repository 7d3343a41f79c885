//! Tests an edit, and classifies its outcome.

use std::time::Duration;

use api::SeiNode;
use api::names::object;
use api::sei_node::SeiNodeStatus;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::Error;
use testbed::harness::wait;

use crate::edit::Edit;
use crate::fixture::{TIMEOUT, is_ready};

/// How long a node may take to react to an edit on a busy machine.
const REACTION: Duration = Duration::from_secs(20);

/// The field that is applied to the claim of the data volume.
const DELETION_POLICY: &str = "spec.dataVolume.deletionPolicy";

/// The outcome of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditOutcome {
    /// A plan was created.
    Planned,
    /// The claim of the data volume was changed, without a plan.
    ClaimChanged,
    /// A condition reports the field.
    Reported,
    /// A condition reported the field before the edit, and no longer does.
    Cleared,
    /// The API server rejects the change, but would accept a new node with this spec.
    Immutable,
    /// The API server rejects any node with this spec.
    Invalid,
    /// With schema defaults, the spec is unchanged.
    Unchanged,
    /// No visible effect, with the final status.
    Ignored(String),
}

impl EditOutcome {
    /// Returns a name for the summary.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::ClaimChanged => "applied to the claim",
            Self::Reported => "reported in a condition",
            Self::Cleared => "cleared from a condition",
            Self::Immutable => "rejected as a change",
            Self::Invalid => "rejected as invalid",
            Self::Unchanged => "unchanged with defaults",
            Self::Ignored(_) => "ignored",
        }
    }
}

/// A node that edits are tested on, one after another, until an edit has changed it.
#[derive(Debug, Default)]
pub struct NodeSlot {
    /// The name of the current node.
    node: Option<String>,
    /// Names for further nodes.
    names: Vec<String>,
}

impl NodeSlot {
    pub fn new(names: Vec<String>) -> Self {
        Self { node: None, names }
    }
}

/// Tests edits.
pub struct EditTester {
    /// Untyped, so that required fields can be missing.
    raw: Api<DynamicObject>,
    nodes: Api<SeiNode>,
    claims: Api<PersistentVolumeClaim>,
}

impl EditTester {
    /// Creates a tester for a namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        let kind = ApiResource::erase::<SeiNode>(&());
        let raw = Api::namespaced_with(client.clone(), namespace, &kind);
        let (nodes, claims) =
            (Api::namespaced(client.clone(), namespace), Api::namespaced(client, namespace));
        Self { raw, nodes, claims }
    }

    /// Tests an edit on the node in the slot, or on a new one.
    pub async fn test(&self, edit: &Edit, slot: &mut NodeSlot) -> Result<EditOutcome, Error> {
        let before = self.raw.create(&dry_run(), &node("any", &edit.variant.spec)?).await?;
        match self.raw.create(&dry_run(), &node("any", &edit.spec)?).await {
            Ok(after) if after.data["spec"] == before.data["spec"] => return Ok(EditOutcome::Unchanged),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 422 => return Ok(EditOutcome::Invalid),
            Err(error) => return Err(error.into()),
        }
        let name = match slot.node.take() {
            Some(name) => name,
            None => {
                let name = slot.names.pop().ok_or_else(|| Error::Other("no node names left".into()))?;
                self.raw.create(&PostParams::default(), &node(&name, &edit.variant.spec)?).await?;
                name
            }
        };
        let outcome = self.test_on_node(&name, edit).await?;
        match outcome {
            EditOutcome::Immutable => slot.node = Some(name),
            EditOutcome::Reported | EditOutcome::Cleared
                if self.replace(&name, &edit.variant.spec, &PostParams::default()).await? =>
            {
                slot.node = Some(name);
            }
            // Its pod is being replaced, or the edit cannot be undone: a new node is faster.
            _ => drop(self.raw.delete(&name, &DeleteParams::default()).await?),
        }
        Ok(outcome)
    }

    async fn test_on_node(&self, name: &str, edit: &Edit) -> Result<EditOutcome, Error> {
        // A rejection does not depend on the state of the node, which need not run yet.
        if !self.replace(name, &edit.spec, &dry_run()).await? {
            return Ok(EditOutcome::Immutable);
        }
        let field = edit.path.to_string();
        let (_, running) =
            self.wait_until(name, TIMEOUT, |node, status| is_ready(node, status).then_some(())).await?;
        let plan_before = running.plan.as_ref().map(|plan| &plan.id);
        let was_reported = is_reported(&running, &field);
        let claim_before = self.claim_owners(name).await?;
        if !self.replace(name, &edit.spec, &PostParams::default()).await? {
            return Ok(EditOutcome::Immutable);
        }
        if field == DELETION_POLICY {
            return self.wait_for_claim(name, &claim_before).await;
        }
        let waited = self.wait_until(name, REACTION, |node, status| {
            let plan = status.plan.as_ref().filter(|plan| Some(&plan.id) != plan_before);
            if plan.is_some_and(|plan| plan.generation == node.metadata.generation) {
                return Some(EditOutcome::Planned);
            }
            if status.observed_generation != node.metadata.generation {
                return None;
            }
            match (was_reported, is_reported(status, &field)) {
                (_, true) => Some(EditOutcome::Reported),
                (true, false) if is_ready(node, status) => Some(EditOutcome::Cleared),
                _ => None,
            }
        });
        match waited.await {
            Ok((outcome, _)) => Ok(outcome),
            Err(Error::Deadline { last, .. }) => Ok(EditOutcome::Ignored(last)),
            Err(error) => Err(error),
        }
    }

    /// Waits until the claim of a node has other owners or labels. The deletion policy is the only field that needs no plan.
    async fn wait_for_claim(&self, name: &str, before: &Value) -> Result<EditOutcome, Error> {
        let waited = wait::until(format!("the claim of {name}"), REACTION, || async {
            let now = self.claim_owners(name).await.map_err(|error| error.to_string())?;
            if now == *before { Err(now.to_string()) } else { Ok(()) }
        });
        match waited.await {
            Ok(()) => Ok(EditOutcome::ClaimChanged),
            Err(Error::Deadline { last, .. }) => Ok(EditOutcome::Ignored(last)),
            Err(error) => Err(error),
        }
    }

    async fn claim_owners(&self, node: &str) -> Result<Value, Error> {
        let claim = self.claims.get_opt(&object::data_claim(node)).await?.unwrap_or_default();
        Ok(json!([claim.metadata.owner_references, claim.metadata.labels]))
    }

    /// Replaces the spec of a node. Returns false if the API server rejects it.
    async fn replace(&self, name: &str, spec: &Value, params: &PostParams) -> Result<bool, Error> {
        let mut edited = node(name, spec)?;
        loop {
            edited.metadata.resource_version = self.nodes.get(name).await?.metadata.resource_version;
            match self.raw.replace(name, params, &edited).await {
                Ok(_) => return Ok(true),
                // The operator wrote in between.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if status.code == 422 => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn wait_until<T>(
        &self,
        name: &str,
        limit: Duration,
        find: impl Fn(&SeiNode, &SeiNodeStatus) -> Option<T>,
    ) -> Result<(T, SeiNodeStatus), Error> {
        wait::until(name, limit, || async {
            let node = self.nodes.get(name).await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            match find(&node, &status) {
                Some(found) => Ok((found, status)),
                None => Err(serde_json::to_string(&status).unwrap_or_default()),
            }
        })
        .await
    }
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// True when a condition names a field, one of its parents, or a field below it.
fn is_reported(status: &SeiNodeStatus, field: &str) -> bool {
    let is_below = |path: &str, parent: &str| {
        path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    // Paused=False and StorageReady=True are always set, and do not count.
    let conditions = status.conditions.iter().filter(|condition| {
        condition.type_ == "SpecApplied"
            || (condition.type_ == "Paused" && condition.status == "True")
            || (condition.type_ == "StorageReady" && condition.status == "False")
    });
    let words = conditions.flat_map(|condition| condition.message.split([' ', ';', ':']));
    words.filter(|word| word.starts_with("spec.")).any(|word| is_below(word, field) || is_below(field, word))
}

fn node(name: &str, spec: &Value) -> Result<DynamicObject, Error> {
    let node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": name }, "spec": spec,
    });
    serde_json::from_value(node).map_err(|error| Error::Other(error.to_string()))
}
