//! What happens to a cluster that neither the operator nor a healthy component does.

use std::sync::Arc;

use api::sidecar_wire::TaskState;
use plan::node::Observed;

use super::cluster::{Cluster, mark_terminating};
use super::reconcile::time;

impl Cluster {
    /// Deletes the pod, not as the operator.
    pub fn delete_pod(&mut self) {
        self.observed.pods.iter_mut().for_each(mark_terminating);
    }

    /// Deletes the objects that can be restored without a new pod, not as the operator. Returns whether there were any.
    pub fn delete_objects(&mut self) -> bool {
        let Observed { service, proxy_config, network_policy, .. } = &mut self.observed;
        let deleted =
            [service.take().is_some(), proxy_config.take().is_some(), network_policy.take().is_some()];
        deleted.contains(&true)
    }

    /// Deletes the StatefulSet with its pod, not as the operator.
    pub fn delete_stateful_set(&mut self) {
        self.observed.stateful_set = None;
        self.observed.pods.clear();
        (self.sidecar.up, self.sidecar.ready) = (false, false);
    }

    /// Deletes the claim of the data volume, not as the operator. It exists until no pod uses it. Returns whether there was one.
    pub fn delete_claim(&mut self) -> bool {
        let Some(claim) =
            self.observed.claim.as_mut().filter(|claim| claim.metadata.deletion_timestamp.is_none())
        else {
            return false;
        };
        Arc::make_mut(claim).metadata.deletion_timestamp = Some(time(self.minutes));
        if self.observed.pods.is_empty() {
            self.release_claim();
        }
        true
    }

    /// Removes a claim that is being deleted: no pod uses it any more.
    pub fn release_claim(&mut self) {
        if self.is_claim_terminating() {
            self.observed.claim = None;
            self.history.changes += 1;
            self.history.has_lost_volume = true;
        }
    }

    /// Returns whether the claim of the data volume is being deleted.
    pub fn is_claim_terminating(&self) -> bool {
        self.observed.claim.as_deref().is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    /// Stops the issuer of certificates. Returns whether that makes a difference: a certificate that was issued stays.
    pub fn stop_issuer(&mut self) -> bool {
        self.observed.certificate.is_none() && !std::mem::replace(&mut self.is_issuer_down, true)
    }

    /// Restarts the process of the sidecar. Unfinished tasks restart.
    pub fn restart_sidecar(&mut self) {
        self.sidecar.ready = false;
    }

    /// Fails the running tasks of the sidecar. Returns whether there were any.
    pub fn fail_running_tasks(&mut self) -> bool {
        let tasks = self.sidecar.tasks.values_mut().filter(|(_, state, _)| *state == TaskState::Running);
        let failed = tasks.map(|(_, state, _)| *state = TaskState::Failed).count();
        self.history.is_disturbed |= failed > 0;
        failed > 0
    }

    /// Lets time pass in which no component works, longer than the deadline of most tasks.
    pub fn pass_deadline(&mut self) {
        self.history.is_disturbed = true;
        self.pass_minutes(61);
    }
}
