//! The status of a fleet. It counts from the desired ordinals, so that missing nodes are never overlooked.

use api::SeiNodeDeployment;
use api::fleet::{
    FleetEndpoints, FleetNodeState, FleetPhase, InternalService, InternalServicePorts, NodeEndpoints,
    NodeSummary, PerPodPorts, PerPodService, Rollout, SeiNodeDeploymentStatus,
};
use api::names::{label, object, port};
use api::sei_node::SeiNodePhase;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::availability::Member;

/// Writes everything but the conditions. `target` is empty as long as the revision is not stored.
pub(super) fn write(
    fleet: &SeiNodeDeployment,
    status: &mut SeiNodeDeploymentStatus,
    members: &[Member<'_>],
    target: &str,
    now: &Time,
) {
    let name = fleet.metadata.name.as_deref().unwrap_or_default();
    status.selector = Some(format!("{}={name}", label::FLEET));
    if target.is_empty() {
        status.phase.get_or_insert(FleetPhase::Pending);
        return;
    }
    status.nodes = members.iter().map(|member| summary(member, &status.nodes, now)).collect();
    status.replicas = count(members, |member| member.node.is_some());
    status.ready_replicas = count(members, |member| phase_of(member) == Some(SeiNodePhase::Running));
    status.updated_replicas = count(members, |member| member.is_updated);
    status.available_replicas = count(members, is_available);
    status.unavailable_replicas = count(members, |member| !is_available(member));
    status.update_revision = Some(target.into());
    write_rollout(fleet, status, members, target, now);
    write_endpoints(fleet, status, members);
    status.phase = Some(phase(fleet, status, members));
}

fn summary(member: &Member<'_>, previous: &[NodeSummary], now: &Time) -> NodeSummary {
    let before = previous.iter().find(|summary| summary.name == member.name);
    let since = before
        .filter(|before| before.state == Some(member.state) && before.revision == member.revision)
        .and_then(|before| before.since.clone());
    NodeSummary {
        name: member.name.clone(),
        phase: phase_of(member),
        current_image: member.node.and_then(|node| node.status.as_ref()?.current_image.clone()),
        ordinal: Some(member.ordinal),
        revision: member.revision.clone(),
        state: Some(member.state),
        since: Some(since.unwrap_or_else(|| now.clone())),
        reason: member.reason.clone(),
        established_at: member.established_at.clone(),
        voting_power: before.and_then(|before| before.voting_power),
    }
}

fn write_rollout(
    fleet: &SeiNodeDeployment,
    status: &mut SeiNodeDeploymentStatus,
    members: &[Member<'_>],
    target: &str,
    now: &Time,
) {
    let is_complete = members.iter().all(|member| member.is_updated && is_available(member));
    if is_complete {
        status.current_revision = Some(target.into());
        status.reconciled_generation = fleet.metadata.generation;
        status.rollout = None;
        return;
    }
    // Setting up new nodes is no rollout.
    let is_needed = members.iter().any(|member| member.node.is_some() && !member.is_updated);
    let is_running = status.rollout.as_ref().is_some_and(|rollout| rollout.target_hash == target);
    if is_needed && !is_running {
        status.rollout = Some(Rollout {
            strategy: fleet.spec.update_strategy.strategy_type,
            target_hash: target.into(),
            started_at: now.clone(),
            incumbent_nodes: Vec::new(),
            entrant_nodes: Vec::new(),
            incumbent_revision: status.current_revision.clone(),
            entrant_revision: Some(target.into()),
        });
    }
}

fn write_endpoints(fleet: &SeiNodeDeployment, status: &mut SeiNodeDeploymentStatus, members: &[Member<'_>]) {
    let name = fleet.metadata.name.as_deref().unwrap_or_default();
    let namespace = fleet.metadata.namespace.clone().unwrap_or_default();
    let internal = object::internal_service(name);
    status.endpoints = Some(FleetEndpoints {
        tendermint_rpc: Some(format!("http://{internal}.{namespace}.svc:{}", port::RPC)),
        tendermint_rest: Some(format!("http://{internal}.{namespace}.svc:{}", port::REST)),
        nodes: members
            .iter()
            .map(|member| NodeEndpoints {
                name: member.name.clone(),
                evm_json_rpc: Some(format!("http://{}.{namespace}.svc:{}", member.name, port::EVM_RPC)),
                evm_ws: Some(format!("ws://{}.{namespace}.svc:{}", member.name, port::EVM_WS)),
            })
            .collect(),
    });
    status.per_pod_services = members
        .iter()
        .map(|member| PerPodService {
            name: member.name.clone(),
            namespace: namespace.clone(),
            ports: PerPodPorts { evm_http: port::EVM_RPC, evm_ws: port::EVM_WS },
        })
        .collect();
    status.internal_service = Some(InternalService {
        name: internal,
        namespace,
        ports: InternalServicePorts { rpc: port::RPC, evm_http: port::EVM_RPC, rest: port::REST },
    });
}

fn phase(fleet: &SeiNodeDeployment, status: &SeiNodeDeploymentStatus, members: &[Member<'_>]) -> FleetPhase {
    let is_in = |phase| members.iter().filter(|member| phase_of(member) == Some(phase)).count();
    let (running, failed) = (is_in(SeiNodePhase::Running), is_in(SeiNodePhase::Failed));
    if status.rollout.is_some() {
        FleetPhase::Upgrading
    } else if members.iter().all(|member| member.node.is_none()) {
        FleetPhase::Pending
    } else if i32::try_from(running) == Ok(fleet.spec.replicas) {
        FleetPhase::Ready
    } else if failed == members.len() {
        FleetPhase::Failed
    } else if failed > 0 && running > 0 {
        FleetPhase::Degraded
    } else {
        FleetPhase::Initializing
    }
}

fn phase_of(member: &Member<'_>) -> Option<SeiNodePhase> {
    let node = member.node.filter(|_| member.state != FleetNodeState::NameConflict)?;
    node.status.as_ref()?.phase
}

fn is_available(member: &Member<'_>) -> bool {
    member.state == FleetNodeState::Available
}

/// Returns how many nodes fulfill a condition. A fleet has at most a hundred.
fn count(members: &[Member<'_>], filter: impl Fn(&Member<'_>) -> bool) -> Option<i32> {
    i32::try_from(members.iter().filter(|member| filter(member)).count()).ok()
}
