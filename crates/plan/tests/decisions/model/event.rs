//! The events of the model.

use api::SeiNode;
use api::sei_node::{SidecarConfig, SidecarTls};

use super::Budget;
use crate::cluster::Cluster;
use crate::reconcile::Fault;

/// An event of one node, or of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Reconcile(Fault),
    StatefulSet,
    Kubelet,
    Sidecar,
    /// The StatefulSet controller, the kubelet and the sidecar work once.
    Components,
    /// All of them work once, and then the operator.
    All,
    Edited(Edit),
    Paused,
    Resumed,
    PlatformChanged,
    PodDeleted,
    ObjectsDeleted,
    ClaimDeleted,
    SidecarRestarted,
    SidecarHangs,
    IssuerStops,
    /// The next tasks that are retried fail twice.
    RetriedTasksFail,
    /// The running tasks fail for good.
    TasksFail,
    AnswersPend,
    AnswersArrive,
    DeadlinePasses,
    /// Time passes, shorter than any deadline.
    MinutesPass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Edit {
    Image(u8),
    Tls(bool),
    Both,
}

impl Event {
    /// Returns whether the event happens to all nodes at the same time.
    pub(super) fn is_global(self) -> bool {
        matches!(self, Self::PlatformChanged | Self::DeadlinePasses | Self::MinutesPass)
    }

    /// Subtracts the event from what may still happen.
    pub(super) fn spend(self, budget: &mut Budget) {
        match self {
            Self::Edited(_) => budget.edits -= 1,
            Self::Paused => budget.pauses -= 1,
            Self::PlatformChanged => budget.platform_changes -= 1,
            Self::Reconcile(Fault::None)
            | Self::StatefulSet
            | Self::Kubelet
            | Self::Sidecar
            | Self::Components
            | Self::All
            | Self::Resumed
            | Self::AnswersArrive => {}
            _ => budget.faults -= 1,
        }
    }

    /// Applies an event without a reconcile. Returns whether it has happened.
    pub(super) fn apply(self, cluster: &mut Cluster) -> bool {
        match self {
            Self::Reconcile(_) | Self::All => false,
            Self::StatefulSet => cluster.run_stateful_set_controller(),
            Self::Kubelet => cluster.run_kubelet(),
            Self::Sidecar => cluster.run_sidecar(),
            Self::Components => cluster.run_components(),
            Self::Edited(edit) => {
                let before = cluster.node.spec.clone();
                cluster.edit(|node| edit.apply(node));
                cluster.node.spec != before
            }
            Self::Paused => set_paused(cluster, true),
            Self::Resumed => set_paused(cluster, false),
            Self::PlatformChanged => {
                cluster.history.changes += 1;
                true
            }
            Self::PodDeleted => {
                cluster.delete_pod();
                !cluster.observed.pods.is_empty()
            }
            Self::ObjectsDeleted => cluster.delete_objects(),
            Self::ClaimDeleted => cluster.delete_claim(),
            Self::SidecarRestarted => {
                cluster.restart_sidecar();
                cluster.sidecar.up
            }
            Self::SidecarHangs => std::mem::take(&mut cluster.sidecar.up),
            Self::IssuerStops => cluster.stop_issuer(),
            Self::RetriedTasksFail => {
                cluster.sidecar.failures += 2;
                true
            }
            Self::TasksFail => cluster.fail_running_tasks(),
            Self::AnswersPend => !std::mem::replace(&mut cluster.is_answer_pending, true),
            Self::AnswersArrive => std::mem::take(&mut cluster.is_answer_pending),
            Self::DeadlinePasses => {
                cluster.pass_deadline();
                true
            }
            Self::MinutesPass => {
                cluster.pass_minutes(2);
                true
            }
        }
    }
}

/// Pauses or resumes a node. Returns whether that changes it.
pub(super) fn set_paused(cluster: &mut Cluster, paused: bool) -> bool {
    if cluster.node.spec.paused == paused {
        return false;
    }
    cluster.edit(|node| node.spec.paused = paused);
    true
}

impl Edit {
    fn apply(self, node: &mut SeiNode) {
        let tls = |node: &mut SeiNode, on: bool| {
            let issuer = SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() };
            let config = SidecarConfig { tls: on.then_some(issuer), ..SidecarConfig::default() };
            node.spec.sidecar = Some(config);
        };
        match self {
            Self::Image(number) => node.spec.image = format!("sei:{number}"),
            Self::Tls(on) => tls(node, on),
            Self::Both => {
                node.spec.image = "sei:3".into();
                tls(node, true);
            }
        }
    }
}
