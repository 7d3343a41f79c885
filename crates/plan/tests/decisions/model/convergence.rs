//! Whether nodes converge once there are no more faults.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use api::condition::{self, Ready, SpecApplied};
use api::names::container;
use api::sei_node::{PlanPhase, SeiNodePhase};
use plan::Platform;

use super::event::set_paused;
use super::{key, update_slot};
use crate::cluster::Cluster;
use crate::fixture::run_once;
use crate::history::desired;

/// States that are known to converge: paths from different states soon meet.
static CONVERGING: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

/// Minutes that pass while there is nothing to do. Their sum is longer than any backoff.
const WAITS: [i64; 5] = [1, 1, 2, 4, 8];

/// Resumes nodes and runs every component without faults.
///
/// # Errors
/// What is wrong if the nodes do not converge.
pub(super) fn check(clusters: &[Cluster], platform: &Platform, disruptions: usize) -> Result<(), String> {
    let mut clusters = clusters.to_vec();
    for cluster in &mut clusters {
        cluster.is_answer_pending = false;
        set_paused(cluster, false);
    }
    if clusters.iter().any(|cluster| cluster.is_issuer_down) {
        check_without_issuer(&mut clusters, platform, disruptions)?;
    }
    let (mut idle, mut path) = (0, Vec::new());
    for _ in 0..400 {
        let current = key(&clusters, &platform.sidecar_image);
        let is_known = CONVERGING.lock().unwrap().contains(&current);
        let is_idle = !is_known && idle == WAITS.len();
        if is_known || (is_idle && !end_wait(&mut clusters)?) {
            if !is_known {
                clusters.iter().try_for_each(|cluster| check_in_sync(cluster, platform))?;
            }
            CONVERGING.lock().unwrap().extend(path);
            return Ok(());
        }
        path.push(current);
        // Time passes only when there is nothing to do.
        if run_all(&mut clusters, platform, disruptions) || is_idle {
            idle = 0;
        } else {
            clusters.iter_mut().for_each(|cluster| cluster.pass_minutes(WAITS[idle]));
            idle += 1;
        }
    }
    let statuses: Vec<_> = clusters.iter().map(|cluster| &cluster.node.status).collect();
    Err(format!("not converged: {statuses:#?}"))
}

/// How many minutes pass until seid must run, although an update waits for its certificate.
const RELEASED_AFTER: usize = 5;

/// Checks that seid does not wait for the certificate of an update, and starts the issuer.
fn check_without_issuer(
    clusters: &mut [Cluster],
    platform: &Platform,
    disruptions: usize,
) -> Result<(), String> {
    let mut idle = 0;
    while idle < RELEASED_AFTER && clusters.iter().any(|cluster| !cluster.sidecar.ready) {
        if !run_all(clusters, platform, disruptions) {
            clusters.iter_mut().for_each(|cluster| cluster.pass_minutes(1));
            idle += 1;
        }
    }
    if let Some(cluster) = clusters.iter().find(|cluster| !cluster.sidecar.ready) {
        return Err(format!("seid waits for a certificate: {:#?}", cluster.node.status));
    }
    clusters.iter_mut().for_each(|cluster| cluster.is_issuer_down = false);
    Ok(())
}

/// Runs every component of every node once. Returns whether anything has changed.
fn run_all(clusters: &mut [Cluster], platform: &Platform, disruptions: usize) -> bool {
    let mut has_worked = false;
    for at in 0..clusters.len() {
        clusters[at].update_slot = update_slot(clusters, at, disruptions);
        has_worked |= run_once(&mut clusters[at], platform);
    }
    has_worked
}

/// Ends a wait that does not end by itself within minutes, after a claim was deleted or the platform changed during a plan. Returns
/// whether there was one.
fn end_wait(clusters: &mut [Cluster]) -> Result<bool, String> {
    if let Some(cluster) = clusters.iter_mut().find(|cluster| cluster.is_claim_terminating()) {
        let status = cluster.node.status.clone().unwrap_or_default();
        let is_reported = condition::has_reason(&status.conditions, Ready::DataVolumeTerminating);
        if !cluster.observed.pods.is_empty() && !is_reported {
            return Err(format!("the claim is being deleted, which is not reported: {status:#?}"));
        }
        // The user gives the data up.
        cluster.delete_pod();
        return Ok(true);
    }
    // The pod of an update cannot start without the claim, and the node is set up again after the update has failed.
    let is_waiting = |cluster: &Cluster| cluster.history.has_lost_volume && cluster.has_active_plan();
    let is_any_waiting = clusters.iter().any(is_waiting);
    if is_any_waiting {
        clusters.iter_mut().for_each(Cluster::pass_deadline);
    }
    Ok(is_any_waiting)
}

fn check_in_sync(cluster: &Cluster, platform: &Platform) -> Result<(), String> {
    let status = cluster.node.status.clone().unwrap_or_default();
    let error = |what: &str| Err(format!("{what}: {:#?}: {status:#?}", cluster.history));
    let is_rolled_back = cluster.is_rolled_back();
    let spec = match status.applied_spec.as_deref() {
        Some(applied) if is_rolled_back => applied,
        _ => &cluster.node.spec,
    };
    let (image, has_tls) = desired(spec);
    if status.phase != Some(SeiNodePhase::Running) {
        return error("the node is not running");
    }
    if status.plan.as_ref().is_some_and(|plan| plan.phase != PlanPhase::Complete) {
        return error("the plan is not complete");
    }
    if cluster.pod_image(container::SEID).as_ref() != Some(&image) || status.current_image != Some(image) {
        return error("wrong image");
    }
    if cluster.pod_image(container::SIDECAR).as_ref() != Some(&platform.sidecar_image) {
        return error("wrong sidecar image");
    }
    if !cluster.sidecar.ready || cluster.sidecar.tls != has_tls {
        return error("wrong sidecar state");
    }
    if cluster.observed.certificate.is_some() != has_tls {
        return error("wrong Certificate");
    }
    // The issued Secret is stored here once it has an owner.
    if cluster.secrets.values().any(|secret| secret.metadata.owner_references.is_some()) != has_tls {
        return error("wrong owner of the issued Secret");
    }
    if !cluster.history.violations.is_empty() {
        return error("violation");
    }
    // A node that has lost its volume during an update is set up with its previous spec, and then updated.
    if !cluster.history.has_lost_volume && !cluster.has_few_replacements() {
        return error("too many pod replacements");
    }
    if is_rolled_back {
        return check_rollback(cluster).or_else(error);
    }
    if status.reconciled_generation != cluster.node.metadata.generation {
        return error("wrong reconciledGeneration");
    }
    Ok(())
}

/// Checks a node whose last update was undone.
fn check_rollback(cluster: &Cluster) -> Result<(), &'static str> {
    let conditions =
        cluster.node.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if !cluster.history.is_disturbed {
        return Err("an update was undone that did not fail");
    }
    if cluster.history.previous.is_none() || cluster.pod_configuration() != cluster.history.previous {
        return Err("not the previous configuration");
    }
    if !condition::has_reason(conditions, SpecApplied::UpdateRolledBack) {
        return Err("the rollback is not reported");
    }
    Ok(())
}
