//! The act stage of fleets: executes the actions of a decision.

use api::SeiNodeDeployment;
use api::names::finalizer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use plan::fleet::{Action, Observed};
use runtime::write::{NamespacedObject, WriteOutcome, Writer};
use serde_json::{Value, json};

use super::super::object_store::ObjectStore;
use super::{Error, FleetController};

/// Executes actions on behalf of one fleet.
pub(super) struct Executor<'a> {
    pub(super) controller: &'a FleetController,
    pub(super) writer: &'a Writer,
    pub(super) fleet: &'a SeiNodeDeployment,
}

impl Executor<'_> {
    /// Executes one action. Returns whether it changed anything. A refused write is recorded in `observed`; after an error, what was
    /// observed is outdated.
    pub(super) async fn execute(&self, action: Action, observed: &mut Observed) -> Result<bool, Error> {
        let FleetController { nodes, revisions, services, .. } = self.controller;
        let writer = self.writer;
        match action {
            Action::CreateNode(node) => {
                // Without force: an object of that name which the cache lacks is a conflict.
                let outcome = writer.apply(&*node, None::<&api::SeiNode>).await?;
                self.record(outcome, nodes, observed)
            }
            Action::UpdateNode(node, live) => {
                let outcome = writer.force_apply(&*node, &*live).await?;
                self.record(outcome, nodes, observed)
            }
            Action::AdoptNode(node, live) => {
                let metadata = json!({
                    "labels": node.metadata.labels,
                    "annotations": node.metadata.annotations,
                    "ownerReferences": node.metadata.owner_references,
                });
                self.patch(&*live, metadata, nodes, observed).await
            }
            Action::ReleaseNode(live) => {
                let is_other = |owner: &&OwnerReference| Some(&owner.uid) != self.fleet.metadata.uid.as_ref();
                let others: Vec<&OwnerReference> = live.owner_references().iter().filter(is_other).collect();
                self.patch(&*live, json!({ "ownerReferences": others }), nodes, observed).await
            }
            Action::DeleteNode(live) => self.delete(&*live, nodes, observed).await,
            Action::CreateRevision(revision) => {
                let outcome = writer.create(&*revision).await?;
                self.record(outcome, revisions, observed)
            }
            Action::RenumberRevision(revision, live) => {
                let outcome = writer.force_apply(&*revision, &*live).await?;
                self.record(outcome, revisions, observed)
            }
            Action::DeleteRevision(live) => self.delete(&*live, revisions, observed).await,
            Action::ApplyService(service, live) => {
                let outcome = match &live {
                    Some(live) => writer.force_apply(&*service, &**live).await?,
                    None => writer.apply(&*service, None::<&k8s_openapi::api::core::v1::Service>).await?,
                };
                self.record(outcome, services, observed)
            }
            Action::DeleteService(live) => self.delete(&*live, services, observed).await,
            Action::RemoveFinalizer => {
                let outcome = writer.remove_finalizer(self.fleet, finalizer::FLEET).await?;
                self.record(outcome, &self.controller.fleets, observed)
            }
        }
    }

    async fn patch<K: NamespacedObject>(
        &self,
        live: &K,
        metadata: Value,
        store: &ObjectStore<K>,
        observed: &mut Observed,
    ) -> Result<bool, Error> {
        let outcome = self.writer.patch_metadata(live, metadata).await?;
        self.record(outcome, store, observed)
    }

    async fn delete<K: NamespacedObject>(
        &self,
        live: &K,
        store: &ObjectStore<K>,
        observed: &mut Observed,
    ) -> Result<bool, Error> {
        let outcome = self.writer.delete(live).await?;
        if matches!(outcome, WriteOutcome::Unchanged | WriteOutcome::Applied(_)) {
            store.record_deletion(live);
            return Ok(true);
        }
        self.record(outcome, store, observed)
    }

    /// Records the outcome of a write.
    fn record<K>(
        &self,
        outcome: WriteOutcome<K>,
        store: &ObjectStore<K>,
        observed: &mut Observed,
    ) -> Result<bool, Error>
    where
        K: NamespacedObject + Resource<Scope = NamespaceResourceScope>,
    {
        let kind = K::kind(&());
        match outcome {
            WriteOutcome::Unchanged => Ok(false),
            WriteOutcome::Applied(object) => {
                store.record_write(object);
                Ok(true)
            }
            WriteOutcome::Stale(reason) => Err(Error::OutdatedFleet { kind: kind.into_owned(), reason }),
            WriteOutcome::Missing => {
                let reason = "the object or its namespace does not exist".into();
                Err(Error::OutdatedFleet { kind: kind.into_owned(), reason })
            }
            WriteOutcome::Conflict(reason)
            | WriteOutcome::Rejected(reason)
            | WriteOutcome::Forbidden(reason)
            | WriteOutcome::UnknownKind(reason)
            | WriteOutcome::Unavailable(reason)
            | WriteOutcome::Unknown(reason) => {
                observed.write_failures.insert(kind.into_owned(), reason);
                Ok(false)
            }
        }
    }
}
