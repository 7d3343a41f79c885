//! The observe stage: reads what a decision depends on from the watches, the API server and the sidecar.

use std::time::Instant;

use api::SeiNode;
use api::condition::{self, SidecarReady};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use plan::node::{
    ChainObservation, ExclusiveUse, Health, Observed, RequiredObservations, SecretObservation, Transport,
    VolumeObservation,
};
use runtime::Key;
use runtime::sync::lock;

use super::{Controller, Error};
use crate::secrets::Freshness;

/// Observes the watched objects of a node.
pub(super) async fn observe_objects(
    controller: &Controller,
    key: &Key,
    node: &SeiNode,
) -> Result<Observed, Error> {
    let mut observed = controller.stores.observe(&controller.client, node).await?;
    observed.render_cache = controller.render_cache(key);
    observed.active_since = lock(&controller.active_since).clone();
    Ok(observed)
}

/// Observes what the next decision requires and was not yet observed in this round. `done` is what the previous decision
/// required.
pub(super) async fn observe_required(
    controller: &Controller,
    key: &Key,
    node: &SeiNode,
    required: &RequiredObservations,
    done: &RequiredObservations,
    observed: &mut Observed,
) -> Result<(), Error> {
    let Controller { sidecars, secrets, volumes, client, .. } = controller;
    for name in &required.secrets {
        let is_awaited = required.awaited_secrets.contains(name);
        if !done.secrets.contains(name) || (is_awaited && !done.awaited_secrets.contains(name)) {
            let freshness = if is_awaited { Freshness::Awaited } else { Freshness::Cached };
            let secret = secrets.get(&key.namespace, name, freshness).await;
            observed.secrets.insert(name.clone(), secret);
        }
    }
    if required.volume_of_claim.is_some() && required.volume_of_claim != done.volume_of_claim {
        let name = observed.claim.as_deref().and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
        observed.volume = match name {
            Some(name) => volumes.get(&name).await?,
            None => VolumeObservation::Missing,
        };
    }
    if required.update_slot && !done.update_slot {
        observed.update_slot = controller.update_slots.request(key, node);
    }
    if let Some(object) = required.exclusive.as_ref().filter(|_| required.exclusive != done.exclusive) {
        let reservations = &controller.reservations;
        let user = reservations.acquire(client, &controller.stores, key, object).await?;
        observed.exclusive_use = Some(ExclusiveUse { object: object.clone(), user });
    }
    // A finished task may have changed the health of the sidecar: the last task of a plan lets seid start.
    let is_task_done = done.task.is_some() && required.task.is_none();
    if let Some(to) = required.health.as_ref().filter(|_| required.health != done.health || is_task_done) {
        let probed = probe_health(controller, key, to, observed).await;
        controller.metrics.record_probe(&key.namespace, &probed);
        let conditions = node.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let was_ready = condition::is_true::<SidecarReady>(conditions);
        observed.sidecar.health = controller.probe_failures.record(key, was_ready, probed, Instant::now());
    }
    if let Some((to, id)) = &required.task
        && (required.task != done.task || observed.sidecar.task.0 != *id)
    {
        let secret = tls_secret(to, observed);
        observed.sidecar.task = (id.clone(), sidecars.get_task(key, to, secret.as_ref(), id).await);
    }
    if let Some(to) = required.serving.as_ref().filter(|_| required.serving != done.serving) {
        let secret = tls_secret(to, observed);
        observed.sidecar.serving = sidecars.probe_serving(key, to, secret.as_ref()).await;
    }
    if let Some((to, task)) = required.dry_run.as_ref().filter(|_| required.dry_run != done.dry_run) {
        let secret = tls_secret(to, observed);
        let answer = sidecars.dry_run(key, to, secret.as_ref(), task).await;
        tracing::debug!(node = %key, ?answer, "dry-run of the configuration");
        observed.sidecar.dry_run = Some((task.clone(), answer));
    }
    if let Some(to) = required.chain.as_ref().filter(|_| required.chain != done.chain || is_task_done) {
        observe_chain(controller, key, node, to, observed).await;
    }
    Ok(())
}

/// Probes the health of a sidecar. If it serves another certificate than that of its Secret, the Secret may have been replaced since it
/// was read: it is read again before the sidecar is reported.
async fn probe_health(controller: &Controller, key: &Key, to: &Transport, observed: &mut Observed) -> Health {
    let Controller { sidecars, secrets, .. } = controller;
    let before = tls_secret(to, observed);
    let health = sidecars.probe_health(key, to, before.as_ref()).await;
    let (Some(name), Health::Unreachable(_)) = (&to.secret, &health) else { return health };
    // A request only if the copy is marked as outdated.
    let now = secrets.get(&key.namespace, name, Freshness::Cached).await;
    if version(before.as_ref()) == version(Some(&now)) {
        return health;
    }
    let health = sidecars.probe_health(key, to, Some(&now)).await;
    observed.secrets.insert(name.clone(), now);
    health
}

/// Returns the version of a Secret, if it exists.
fn version(secret: Option<&SecretObservation>) -> Option<String> {
    match secret {
        Some(SecretObservation::Found(found)) => found.secret.resource_version(),
        _ => None,
    }
}

/// Observes the state of the chain of a node. seid answers only if its sidecar lets it run.
async fn observe_chain(
    controller: &Controller,
    key: &Key,
    node: &SeiNode,
    to: &Transport,
    observed: &mut Observed,
) {
    let (heights, chain) = (&controller.heights, &node.spec.chain_id);
    observed.sidecar.chain = match &observed.sidecar.health {
        Health::Ready => {
            let (secret, question) = (tls_secret(to, observed), heights.question(key, chain));
            controller.sidecars.get_chain(key, to, secret.as_ref(), question).await
        }
        Health::NotReady => ChainObservation::Unavailable("the sidecar does not let seid run".into()),
        Health::Unreachable(why) => ChainObservation::Unavailable(why.clone()),
        Health::Unknown => ChainObservation::Unknown,
    };
    let now = Time(Timestamp::now());
    observed.chain = heights.record(key, chain, &observed.sidecar.chain, &now);
}

/// Returns the Secret that the certificate of a sidecar is verified against.
pub(super) fn tls_secret(to: &Transport, observed: &Observed) -> Option<SecretObservation> {
    to.secret.as_ref().and_then(|name| observed.secrets.get(name).cloned())
}
