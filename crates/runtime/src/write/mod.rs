//! Writes of controllers. A write requires a valid leader claim and is guarded by the resource version it is based on; its
//! outcome states what is known about it.

mod cluster;
mod outcome;
mod status;

use std::fmt::Debug;
use std::time::Duration;

use api::drift::{self, Drift};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use self::cluster::ClusterObject;
pub use self::outcome::WriteOutcome;
pub use self::status::StatusUpdate;
use crate::lease::{Claim, NotLeading};
use crate::metrics::{Metrics, WriteLabels};
use crate::watch::DeserializeGuard;

/// Timeout of a write. The outcome of a write that takes longer is unknown.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Errors that prevent a write from being sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process leads, or may lead by now.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The object cannot be serialized.
    #[error("failed to serialize object: {0}")]
    Json(#[from] serde_json::Error),
    /// The object lacks a field that the write requires.
    #[error("cannot write object without {0}")]
    MissingField(&'static str),
}

/// A namespaced kind that can be written.
pub trait NamespacedObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> NamespacedObject for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

/// Writes as one field manager while its leader claim is valid.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
    claim: Claim,
    metrics: Metrics,
}

impl Writer {
    /// Creates a writer.
    #[must_use]
    pub fn new(client: Client, manager: &'static str, claim: Claim, metrics: &Metrics) -> Self {
        Self { client, manager, claim, metrics: metrics.clone() }
    }

    /// Returns the claim that permits the writes.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Applies the fields of `desired` (server-side apply). `live` is the cached object: if it is in sync, nothing is sent, and
    /// if it was changed in the meantime, the write is rejected.
    ///
    /// Fields of other managers are not overwritten: that is an [`WriteOutcome::Conflict`], to be surfaced to the user.
    pub async fn apply<K, L>(&self, desired: &K, live: Option<&L>) -> Result<WriteOutcome<K>, Error>
    where
        K: NamespacedObject,
        L: Resource + Serialize,
    {
        self.apply_as(desired, live, PatchParams::apply(self.manager)).await
    }

    /// Like [`apply`](Self::apply), but takes over fields of other managers. For objects that belong to us alone: a manual edit
    /// owns the fields it changed, and without force it could never be reverted.
    pub async fn force_apply<K, L>(&self, desired: &K, live: &L) -> Result<WriteOutcome<K>, Error>
    where
        K: NamespacedObject,
        L: Resource + Serialize,
    {
        self.apply_as(desired, Some(live), PatchParams::apply(self.manager).force()).await
    }

    async fn apply_as<K, L>(
        &self,
        desired: &K,
        live: Option<&L>,
        params: PatchParams,
    ) -> Result<WriteOutcome<K>, Error>
    where
        K: NamespacedObject,
        L: Resource + Serialize,
    {
        let namespace = desired.namespace().ok_or(Error::MissingField("namespace"))?;
        let hash = drift::hash(desired)?;
        let mut body = desired.clone();
        drift::annotate(&mut body, &hash);
        if let Some(live) = live {
            if drift::detect(live, desired, &hash)? == Drift::InSync {
                return Ok(self.count(WriteOutcome::Unchanged));
            }
            let meta = body.meta_mut();
            meta.resource_version =
                Some(live.resource_version().ok_or(Error::MissingField("resourceVersion"))?);
            meta.uid = live.uid();
        }
        let api: Api<DeserializeGuard<K>> = Api::namespaced(self.client.clone(), &namespace);
        let live_version = live.and_then(ResourceExt::resource_version);
        let name = desired.name_any();
        let sent = self.send(api.patch(&name, &params, &Patch::Apply(&body))).await?.and_then(decode);
        Ok(self.count(match sent {
            // A no-op that we could not detect, because the API server normalizes values such as quantities.
            WriteOutcome::Applied(object)
                if live_version.is_some() && live_version == object.resource_version() =>
            {
                WriteOutcome::Unchanged
            }
            other => other,
        }))
    }

    /// Creates an object. If it exists already, the outcome is [`WriteOutcome::Stale`]: the caller must check who owns it.
    pub async fn create<K: NamespacedObject>(&self, object: &K) -> Result<WriteOutcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::MissingField("namespace"))?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() };
        let sent = self.send(api.create(&params, object)).await?;
        Ok(self.count(sent))
    }

    /// Deletes an object, unless it was recreated under the same name.
    pub async fn delete<K: NamespacedObject>(&self, object: &K) -> Result<WriteOutcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::MissingField("namespace"))?;
        let uid = object.uid().ok_or(Error::MissingField("uid"))?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let name = object.name_any();
        let sent = self.send(async { api.delete(&name, &params).await.map(|_| object.clone()) }).await?;
        Ok(self.count(match sent {
            // Without its kind, the object does not exist either.
            WriteOutcome::Missing | WriteOutcome::UnknownKind(_) => WriteOutcome::Unchanged,
            other => other,
        }))
    }

    /// Removes a finalizer from an object that is being deleted.
    pub async fn remove_finalizer<K: NamespacedObject>(
        &self,
        object: &K,
        name: &str,
    ) -> Result<WriteOutcome<K>, Error> {
        let rest: Vec<&String> = object.finalizers().iter().filter(|finalizer| *finalizer != name).collect();
        self.patch_metadata(object, json!({ "finalizers": rest })).await
    }

    /// Changes metadata of an object (merge patch), whichever manager has set it, if the object has not changed since it was read.
    pub async fn patch_metadata<K: NamespacedObject>(
        &self,
        object: &K,
        mut metadata: Value,
    ) -> Result<WriteOutcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::MissingField("namespace"))?;
        let version = object.resource_version().ok_or(Error::MissingField("resourceVersion"))?;
        metadata["resourceVersion"] = json!(version);
        metadata["uid"] = json!(object.uid());
        let patch = json!({ "metadata": metadata });
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        let object_name = object.name_any();
        let sent = self.send(api.patch(&object_name, &params, &Patch::Merge(&patch))).await?;
        Ok(self.count(sent))
    }

    /// Returns the right to write the status of `object` once in this reconcile.
    pub fn status_update<'a, K: NamespacedObject>(&'a self, object: &'a K) -> StatusUpdate<'a, K> {
        StatusUpdate::new(self, object)
    }

    async fn patch_status<K: NamespacedObject>(
        &self,
        object: &K,
        patch: &Value,
    ) -> Result<WriteOutcome<K>, Error> {
        let namespace = object.namespace().ok_or(Error::MissingField("namespace"))?;
        let api: Api<DeserializeGuard<K>> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        let name = object.name_any();
        let sent = self.send(api.patch_status(&name, &params, &Patch::Merge(patch))).await?.and_then(decode);
        Ok(self.count(sent))
    }

    /// Sends a write. The claim is checked right before, because the process may have been suspended until now.
    async fn send<K>(&self, write: impl Future<Output = kube::Result<K>>) -> Result<WriteOutcome<K>, Error> {
        self.claim.check()?;
        Ok(match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(Ok(object)) => WriteOutcome::Applied(object),
            Ok(Err(error)) => WriteOutcome::from_error(error),
            Err(_) => WriteOutcome::Unknown(format!("no response within {} s", WRITE_TIMEOUT.as_secs())),
        })
    }

    fn count<K: Resource<DynamicType = ()>>(&self, outcome: WriteOutcome<K>) -> WriteOutcome<K> {
        let labels = WriteLabels { kind: K::kind(&()).into_owned(), outcome: outcome.name().to_owned() };
        self.metrics.writes.get_or_create(&labels).inc();
        outcome
    }
}

/// A response that fails to deserialize proves the write, but the state of the object is unknown.
fn decode<K>(response: DeserializeGuard<K>) -> WriteOutcome<K> {
    match response.into_result() {
        Ok(object) => WriteOutcome::Applied(object),
        Err(error) => {
            WriteOutcome::Unknown(format!("failed to deserialize the API server's response: {error}"))
        }
    }
}
