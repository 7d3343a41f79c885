//! The act stage: executes the actions of a decision. The responses of the API server and the sidecar become part of the
//! observed state.

use api::SeiNode;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::{ObjectMeta, PartialObjectMetaExt};
use kube::{Resource, ResourceExt};
use plan::node::{
    Action, ClaimOwnership, Deletion, Object, Observed, ObservedStatefulSet, SecretOwnership, WriteFailure,
};
use runtime::Key;
use runtime::write::{self, NamespacedObject, WriteOutcome, Writer};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Error;
use super::object_store::{ObjectStore, mark_terminating};
use super::observe::tls_secret;
use super::stores::ObjectStores;
use crate::secrets::{SecretMeta, SecretReader};
use crate::sidecar::Sidecars;

/// Executes actions on behalf of one node.
pub(super) struct Executor<'a> {
    pub(super) writer: &'a Writer,
    pub(super) stores: &'a ObjectStores,
    pub(super) sidecars: &'a Sidecars,
    pub(super) secrets: &'a SecretReader,
    pub(super) key: &'a Key,
    pub(super) node: &'a SeiNode,
}

impl Executor<'_> {
    /// Executes one action. After an error the observed state is unknown: the reconcile ends without a status write, and the
    /// next one observes everything again.
    pub(super) async fn execute(&self, action: Action, observed: &mut Observed) -> Result<(), Error> {
        match action {
            Action::Apply(object) => self.write(object, observed, false).await,
            Action::Create(object) => self.write(object, observed, true).await,
            Action::Delete(deletion) => self.delete(deletion, observed).await,
            Action::SetClaimOwnership(ownership) => self.set_claim_ownership(*ownership, observed).await,
            Action::SetSecretOwnership(ownership) => self.set_secret_ownership(*ownership, observed).await,
            Action::Submit(transport, request) => {
                let id = request.id.clone().unwrap_or_default();
                let secret = tls_secret(&transport, observed);
                let claim = self.writer.claim();
                let submission =
                    self.sidecars.submit_task(self.key, &transport, secret.as_ref(), &request, claim).await;
                // What was observed of the task before is outdated now.
                observed.sidecar.task = Default::default();
                observed.sidecar.submission = Some((id, submission));
                Ok(())
            }
        }
    }

    async fn write(&self, object: Object, observed: &mut Observed, create: bool) -> Result<(), Error> {
        let stores = self.stores;
        let kind = object.kind();
        macro_rules! write_object {
            ($desired:expr, $live:expr, $store:expr, $convert:expr) => {{
                let live = if create { None } else { $live.clone() };
                let outcome = self.write_one(&**$desired, live.as_deref(), create).await?;
                match (&outcome, &live) {
                    // The API server found no difference, although the live object reads differently.
                    (WriteOutcome::Unchanged, Some(live)) => self.record_in_sync(observed, &**live),
                    (WriteOutcome::Applied(object), _) if !create => self.record_in_sync(observed, object),
                    _ => {}
                }
                if let Some(object) = self.record_outcome(kind, outcome, observed)? {
                    $live = Some($store.record_write($convert(object)?));
                }
            }};
        }
        match &object {
            Object::StatefulSet(desired) => {
                let convert =
                    |set: StatefulSet| ObservedStatefulSet::try_from(&set).map_err(write::Error::from);
                write_object!(desired, observed.stateful_set, stores.stateful_sets, convert);
            }
            Object::Service(desired) => write_object!(desired, observed.service, stores.services, whole),
            Object::ConfigMap(desired) => {
                write_object!(desired, observed.proxy_config, stores.config_maps, whole)
            }
            Object::NetworkPolicy(desired) => {
                write_object!(desired, observed.network_policy, stores.network_policies, whole);
            }
            Object::DisruptionBudget(desired) => {
                write_object!(desired, observed.disruption_budget, stores.disruption_budgets, whole);
            }
            Object::Claim(desired) => write_object!(desired, observed.claim, stores.claims, whole),
            Object::Certificate(desired) => {
                write_object!(desired, observed.certificate, stores.certificates.store, whole);
            }
            Object::Job(desired) => write_object!(desired, observed.job, stores.jobs, whole),
        }
        Ok(())
    }

    /// Changes owner references and labels of the claim. Not with server-side apply: the claims of the upstream controller have their
    /// owner from another manager, and only an update can remove it.
    async fn set_claim_ownership(
        &self,
        ownership: ClaimOwnership,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let ClaimOwnership { claim, owner_references, labels } = ownership;
        let labels: Map<String, Value> =
            labels.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let metadata = json!({ "ownerReferences": owner_references, "labels": labels });
        let outcome = self.writer.patch_metadata(&claim, metadata).await?;
        if let Some(claim) = self.record_outcome("PersistentVolumeClaim", outcome, observed)? {
            observed.claim = Some(self.stores.claims.record_write(claim));
        }
        Ok(())
    }

    /// Changes the owner references of a Secret. Only its metadata is sent and kept.
    async fn set_secret_ownership(
        &self,
        ownership: SecretOwnership,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let SecretOwnership { secret, owner_references } = ownership;
        let secret: SecretMeta = secret.metadata.into_request_partial();
        let metadata = json!({ "ownerReferences": owner_references });
        let outcome = self.writer.patch_metadata(&secret, metadata).await?;
        if !matches!(outcome, WriteOutcome::Applied(_)) {
            // No event announces that the Secret has changed.
            self.secrets.expire(&Key::from_object(&secret));
        }
        if let Some(written) = self.record_outcome("Secret", outcome, observed)? {
            observed
                .secrets
                .extend(self.secrets.record_write(&written).map(|secret| (written.name_any(), secret)));
        }
        Ok(())
    }

    async fn write_one<K, L>(
        &self,
        desired: &K,
        live: Option<&L>,
        create: bool,
    ) -> Result<WriteOutcome<K>, Error>
    where
        K: NamespacedObject,
        L: Resource + Serialize,
    {
        if create {
            return Ok(self.writer.create(desired).await?);
        }
        // Decisions apply only the claim of the node itself. One that outlives its node has no controller, and was created with an
        // update, which an apply conflicts with.
        let is_claim = K::kind(&()) == PersistentVolumeClaim::kind(&());
        match live {
            Some(live) if is_claim || has_same_controller(desired, live) => {
                Ok(self.writer.force_apply(desired, live).await?)
            }
            live => Ok(self.writer.apply(desired, live).await?),
        }
    }

    fn record_in_sync<L: Resource<DynamicType = ()>>(&self, observed: &Observed, live: &L) {
        observed.render_cache.record_in_sync(self.node, live);
    }

    /// Records the outcome of a write. Returns the object as it is stored now, if the API server returned it.
    fn record_outcome<K: NamespacedObject>(
        &self,
        kind: &'static str,
        outcome: WriteOutcome<K>,
        observed: &mut Observed,
    ) -> Result<Option<K>, Error> {
        let failure = match outcome {
            WriteOutcome::Applied(object) => return Ok(Some(object)),
            WriteOutcome::Unchanged => return Ok(None),
            WriteOutcome::Conflict(reason) => WriteFailure::Conflict(reason),
            WriteOutcome::Rejected(reason) => WriteFailure::Rejected(reason),
            WriteOutcome::Forbidden(reason)
            | WriteOutcome::Unavailable(reason)
            | WriteOutcome::Unknown(reason) => WriteFailure::Transient(reason),
            WriteOutcome::Stale(reason) => {
                return Err(Error::OutdatedObject { kind, reason });
            }
            WriteOutcome::UnknownKind(_) if kind == "Certificate" => {
                WriteFailure::Transient("the Certificate CRD is not installed: install cert-manager".into())
            }
            WriteOutcome::UnknownKind(reason) => {
                WriteFailure::Transient(format!("the API server does not serve this kind: {reason}"))
            }
            WriteOutcome::Missing => {
                let reason = "the object or its namespace does not exist".into();
                return Err(Error::OutdatedObject { kind, reason });
            }
        };
        observed.write_failures.insert(kind, failure);
        Ok(None)
    }

    async fn delete(&self, deletion: Deletion, observed: &mut Observed) -> Result<(), Error> {
        let stores = self.stores;
        match deletion {
            Deletion::Pod(pod) => {
                if self.delete_one("Pod", &*pod, &stores.pods, observed).await? {
                    let same = observed.pods.iter_mut().find(|other| other.metadata.uid == pod.metadata.uid);
                    if let Some(entry) = same {
                        *entry = mark_terminating(entry.clone());
                    }
                }
            }
            Deletion::Service(service) => {
                if self.delete_one("Service", &*service, &stores.services, observed).await? {
                    observed.service = observed.service.take().map(mark_terminating);
                }
            }
            Deletion::Job(job) => {
                if self.delete_one("Job", &*job, &stores.jobs, observed).await? {
                    observed.job = observed.job.take().map(mark_terminating);
                }
            }
            Deletion::Certificate(certificate) => {
                let store = &stores.certificates.store;
                if self.delete_one("Certificate", &*certificate, store, observed).await? {
                    observed.certificate = observed.certificate.take().map(mark_terminating);
                }
            }
        }
        Ok(())
    }

    /// Deletes an object. Returns true when it is terminating or gone.
    async fn delete_one<K: NamespacedObject>(
        &self,
        kind: &'static str,
        object: &K,
        store: &ObjectStore<K>,
        observed: &mut Observed,
    ) -> Result<bool, Error> {
        let outcome = self.writer.delete(object).await?;
        let is_deleted = matches!(outcome, WriteOutcome::Unchanged)
            || self.record_outcome(kind, outcome, observed)?.is_some();
        if is_deleted {
            store.record_deletion(object);
        }
        Ok(is_deleted)
    }
}

/// True when the live object has the same controller as the desired one.
fn has_same_controller(desired: &impl Resource, live: &impl Resource) -> bool {
    let controller = |meta: &ObjectMeta| {
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        owner.map(|owner| owner.uid.clone())
    };
    let desired = controller(desired.meta());
    desired.is_some() && desired == controller(live.meta())
}

/// Stores most kinds as a whole.
fn whole<K>(object: K) -> Result<K, write::Error> {
    Ok(object)
}
