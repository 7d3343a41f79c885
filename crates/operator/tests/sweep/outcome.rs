//! What becomes of an edit.

use std::time::Duration;

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::Error;
use testbed::harness::wait;

use crate::edit::Edit;
use crate::ground::{SOON, is_ready};

/// How long a node may take to say what it makes of an edit, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

/// What became of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a plan for it.
    Planned,
    /// A condition names it.
    Named,
    /// It had no effect, which a condition said, and does not any more.
    Withdrawn,
    /// The API server refuses the change, although a new node might be so.
    Refused,
    /// The API server refuses any node that is so.
    Invalid,
    /// With the defaults of the schema it is what it was.
    Same,
    /// Nothing of all that; this is the status.
    Ignored(String),
}

impl Verdict {
    /// In one word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Named => "named in a condition",
            Self::Withdrawn => "named in a condition until now",
            Self::Refused => "refused as a change",
            Self::Invalid => "refused as invalid",
            Self::Same => "the same with defaults",
            Self::Ignored(_) => "ignored",
        }
    }
}

/// A node that edits are tried on, one after the other, until one of them has changed it.
#[derive(Debug, Default)]
pub struct Hand {
    /// The one that is there.
    node: Option<String>,
    /// Names for others.
    names: Vec<String>,
}

impl Hand {
    /// Nodes with these names.
    pub fn of(names: Vec<String>) -> Self {
        Self { node: None, names }
    }
}

/// Tries edits.
pub struct Judge {
    /// As anybody may write them, with fields missing that must be there.
    raw: Api<DynamicObject>,
    nodes: Api<SeiNode>,
}

impl Judge {
    /// One that tries them in a namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        let kind = ApiResource::erase::<SeiNode>(&());
        let raw = Api::namespaced_with(client.clone(), namespace, &kind);
        Self { raw, nodes: Api::namespaced(client, namespace) }
    }

    /// Tries an edit on the node in hand, or on a new one.
    pub async fn judge(&self, edit: &Edit, hand: &mut Hand) -> Result<Verdict, Error> {
        let before = self.raw.create(&rehearsal(), &node("any", &edit.specimen.spec)?).await?;
        match self.raw.create(&rehearsal(), &node("any", &edit.spec)?).await {
            Ok(after) if after.data["spec"] == before.data["spec"] => return Ok(Verdict::Same),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 422 => return Ok(Verdict::Invalid),
            Err(error) => return Err(error.into()),
        }
        let name = match hand.node.take() {
            Some(name) => name,
            None => {
                let name =
                    hand.names.pop().ok_or_else(|| Error::Refused("there are no names left".into()))?;
                self.raw.create(&PostParams::default(), &node(&name, &edit.specimen.spec)?).await?;
                name
            }
        };
        let verdict = self.on_a_node(&name, edit).await?;
        match verdict {
            Verdict::Refused => hand.node = Some(name),
            Verdict::Named | Verdict::Withdrawn => {
                self.replace(&name, &edit.specimen.spec, &PostParams::default()).await?;
                hand.node = Some(name);
            }
            // Its pod is being replaced: a new node is there sooner.
            _ => drop(self.raw.delete(&name, &DeleteParams::default()).await?),
        }
        Ok(verdict)
    }

    async fn on_a_node(&self, name: &str, edit: &Edit) -> Result<Verdict, Error> {
        // What is refused is refused at any time: it need not run for that.
        if !self.replace(name, &edit.spec, &rehearsal()).await? {
            return Ok(Verdict::Refused);
        }
        let place = edit.path.to_string();
        let (_, running) =
            self.until(name, SOON, |node, status| is_ready(node, status).then_some(())).await?;
        let plan_before = running.plan.as_ref().map(|plan| &plan.id);
        let named_before = is_named(&running, &place);
        if !self.replace(name, &edit.spec, &PostParams::default()).await? {
            return Ok(Verdict::Refused);
        }
        let seen = self.until(name, AT_ONCE, |node, status| {
            let plan = status.plan.as_ref().filter(|plan| Some(&plan.id) != plan_before);
            if plan.is_some_and(|plan| plan.generation == node.metadata.generation) {
                return Some(Verdict::Planned);
            }
            if status.observed_generation != node.metadata.generation {
                return None;
            }
            match (named_before, is_named(status, &place)) {
                (_, true) => Some(Verdict::Named),
                (true, false) if is_ready(node, status) => Some(Verdict::Withdrawn),
                _ => None,
            }
        });
        match seen.await {
            Ok((verdict, _)) => Ok(verdict),
            Err(Error::Deadline { last, .. }) => Ok(Verdict::Ignored(last)),
            Err(error) => Err(error),
        }
    }

    /// Edits a node; tells whether the API server lets it.
    async fn replace(&self, name: &str, spec: &Value, how: &PostParams) -> Result<bool, Error> {
        let mut edited = node(name, spec)?;
        loop {
            edited.metadata.resource_version = self.nodes.get(name).await?.metadata.resource_version;
            match self.raw.replace(name, how, &edited).await {
                Ok(_) => return Ok(true),
                // The operator was faster.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if status.code == 422 => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn until<T>(
        &self,
        name: &str,
        limit: Duration,
        wanted: impl Fn(&SeiNode, &SeiNodeStatus) -> Option<T>,
    ) -> Result<(T, SeiNodeStatus), Error> {
        wait::until(name, limit, || async {
            let node = self.nodes.get(name).await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            match wanted(&node, &status) {
                Some(found) => Ok((found, status)),
                None => Err(serde_json::to_string(&status).unwrap_or_default()),
            }
        })
        .await
    }
}

fn rehearsal() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Whether a condition names a place, one above it, or one below it.
fn is_named(status: &SeiNodeStatus, place: &str) -> bool {
    let below = |one: &str, other: &str| {
        one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    // That a node is not paused is said always, and is no answer.
    let conditions = status
        .conditions
        .iter()
        .filter(|one| one.type_ == "SpecApplied" || (one.type_ == "Paused" && one.status == "True"));
    let words = conditions.flat_map(|condition| condition.message.split([' ', ';', ':']));
    words.filter(|word| word.starts_with("spec.")).any(|word| below(word, place) || below(place, word))
}

fn node(name: &str, spec: &Value) -> Result<DynamicObject, Error> {
    let node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": name }, "spec": spec,
    });
    serde_json::from_value(node).map_err(|error| Error::Refused(error.to_string()))
}
