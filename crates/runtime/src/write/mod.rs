//! Every write of a controller: only while it leads, guarded by what it has seen, and with an outcome that says what is
//! known about it.

mod cluster;
mod outcome;
mod status;

use std::fmt::Debug;
use std::time::Duration;

use api::applied::{self, Standing};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use self::cluster::WrittenOfCluster;
pub use self::outcome::Outcome;
pub use self::status::Pass;
use crate::lease::{Claim, NotLeading};
use crate::metrics::{ByOutcome, Metrics};
use crate::watch::Guarded;

/// How long one write may take. What became of one that takes longer is not known.
const WITHIN: Duration = Duration::from_secs(10);

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process leads, or may do so by now.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The object cannot be written as JSON.
    #[error("an object that cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// The object lacks what a write needs.
    #[error("an object without {0} cannot be written")]
    Lacks(&'static str),
}

/// A kind that lives in namespaces, and that we write.
pub trait Written:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> Written for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

/// Writes, as one field manager, as long as its claim to lead holds.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
    claim: Claim,
    metrics: Metrics,
}

impl Writer {
    /// A writer.
    #[must_use]
    pub fn new(client: Client, manager: &'static str, claim: Claim, metrics: &Metrics) -> Self {
        Self { client, manager, claim, metrics: metrics.clone() }
    }

    /// Makes an object be as `desired`, in the fields that it names (server-side apply). `live` is what is known of it: if
    /// nothing would change, nothing is sent, and if it has changed since, nothing is done.
    ///
    /// A field that somebody else owns is not taken away from them: that is a [`Outcome::Conflict`], for the user to see.
    pub async fn apply<K, L>(&self, desired: &K, live: Option<&L>) -> Result<Outcome<K>, Error>
    where
        K: Written,
        L: Resource + Serialize,
    {
        self.apply_as(desired, live, PatchParams::apply(self.manager)).await
    }

    /// The same for an object that is ours alone: fields that somebody has taken in it are taken back. Whoever changed it by
    /// hand owns what he changed, and without force nothing of it could ever be put right again.
    pub async fn take_back<K, L>(&self, desired: &K, live: &L) -> Result<Outcome<K>, Error>
    where
        K: Written,
        L: Resource + Serialize,
    {
        self.apply_as(desired, Some(live), PatchParams::apply(self.manager).force()).await
    }

    async fn apply_as<K, L>(
        &self,
        desired: &K,
        live: Option<&L>,
        params: PatchParams,
    ) -> Result<Outcome<K>, Error>
    where
        K: Written,
        L: Resource + Serialize,
    {
        let namespace = desired.namespace().ok_or(Error::Lacks("a namespace"))?;
        let hash = applied::hash(desired)?;
        let mut body = desired.clone();
        applied::sign(&mut body, &hash);
        if let Some(live) = live {
            if applied::standing(live, desired, &hash)? == Standing::AsWished {
                return Ok(self.count(Outcome::Unchanged));
            }
            let meta = body.meta_mut();
            meta.resource_version = Some(live.resource_version().ok_or(Error::Lacks("a version"))?);
            meta.uid = live.uid();
        }
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &namespace);
        let before = live.and_then(ResourceExt::resource_version);
        let name = desired.name_any();
        let sent = self.send(api.patch(&name, &params, &Patch::Apply(&body))).await?.and_then(read);
        Ok(self.count(match sent {
            // The API server found nothing to do, where we could not tell: it writes quantities in its own way.
            Outcome::Applied(object) if before.is_some() && before == object.resource_version() => {
                Outcome::Unchanged
            }
            other => other,
        }))
    }

    /// Makes an object that must not exist yet. One that does is [`Outcome::Stale`]: whose it is must be looked at.
    pub async fn create<K: Written>(&self, object: &K) -> Result<Outcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::Lacks("a namespace"))?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() };
        let sent = self.send(api.create(&params, object)).await?;
        Ok(self.count(sent))
    }

    /// Deletes this very object, not another one that has its name by now.
    pub async fn delete<K: Written>(&self, object: &K) -> Result<Outcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::Lacks("a namespace"))?;
        let uid = object.uid().ok_or(Error::Lacks("a uid"))?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let name = object.name_any();
        let sent = self.send(async { api.delete(&name, &params).await.map(|_| object.clone()) }).await?;
        Ok(self.count(match sent {
            Outcome::Missing => Outcome::Unchanged,
            other => other,
        }))
    }

    /// Takes a finalizer away from an object that is being deleted.
    pub async fn drop_finalizer<K: Written>(&self, object: &K, name: &str) -> Result<Outcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::Lacks("a namespace"))?;
        let version = object.resource_version().ok_or(Error::Lacks("a version"))?;
        let kept: Vec<&String> = object.finalizers().iter().filter(|finalizer| *finalizer != name).collect();
        let patch =
            json!({ "metadata": { "resourceVersion": version, "uid": object.uid(), "finalizers": kept } });
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        let object_name = object.name_any();
        let sent = self.send(api.patch(&object_name, &params, &Patch::Merge(&patch))).await?;
        Ok(self.count(sent))
    }

    /// The one status write of this pass.
    pub fn pass<'a, K: Written>(&'a self, object: &'a K) -> Pass<'a, K> {
        Pass::new(self, object)
    }

    async fn patch_status<K: Written>(&self, object: &K, patch: &Value) -> Result<Outcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::Lacks("a namespace"))?;
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        let name = object.name_any();
        let sent = self.send(api.patch_status(&name, &params, &Patch::Merge(patch))).await?.and_then(read);
        Ok(self.count(sent))
    }

    /// Sends a write. The claim is looked at last of all: a process that was stopped may find itself here much later.
    async fn send<K>(&self, write: impl Future<Output = kube::Result<K>>) -> Result<Outcome<K>, Error> {
        self.claim.check()?;
        Ok(match tokio::time::timeout(WITHIN, write).await {
            Ok(Ok(object)) => Outcome::Applied(object),
            Ok(Err(error)) => Outcome::of(error),
            Err(_) => Outcome::Unknown(format!("no answer within {} s", WITHIN.as_secs())),
        })
    }

    fn count<K: Written>(&self, outcome: Outcome<K>) -> Outcome<K> {
        let labels = ByOutcome { kind: K::kind(&()).into_owned(), outcome: outcome.name().to_owned() };
        self.metrics.writes.get_or_create(&labels).inc();
        outcome
    }
}

/// An answer that cannot be read tells that something was written, but not what is there now.
fn read<K>(answer: Guarded<K>) -> Outcome<K> {
    match answer.read() {
        Ok(object) => Outcome::Applied(object),
        Err(why) => Outcome::Unknown(format!("the API server's answer cannot be read: {why}")),
    }
}
