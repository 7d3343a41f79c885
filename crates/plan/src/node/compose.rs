//! Composes plans: which steps, in which order, with which parameters.

use api::names::object;
use api::sei_node::{
    ConfigChange, ObservedKeys, PeerSource, PlanChanges, PlanKind, PlanPhase, PlannedTask, SeiNodePhase,
    TaskPlan, TaskStatus,
};
use api::sidecar_wire::{
    ConfigApply, ConfigureGenesis, ConfigureStateSync, DiscoverPeers, GenerateGentx, GenerateIdentity,
    PeerDiscovery, SnapshotRestore, TaskType, UploadGenesisArtifacts,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Value, json};

use super::context::NodeContext;
use super::settings::settings;
use super::stored_plan::{MUST_EXIST, SEID_MAY_RUN};
use super::task::{self, Step};
use super::{drift, retention, tls};
use crate::render;

/// The tasks of the sidecar that plans contain.
pub const SUBMITTED_TASKS: [TaskType; 12] = [
    TaskType::ConfigApply,
    TaskType::ConfigValidate,
    TaskType::ConfigureGenesis,
    TaskType::ConfigureStateSync,
    TaskType::DiscoverPeers,
    TaskType::GenerateGentx,
    TaskType::GenerateIdentity,
    TaskType::MarkReady,
    TaskType::SetGenesisPeers,
    TaskType::SnapshotRestore,
    TaskType::SnapshotUpload,
    TaskType::UploadGenesisArtifacts,
];

/// Steps with their parameters.
type Tasks = Vec<(Step, Option<Value>)>;

impl NodeContext<'_> {
    /// Composes the plan that sets up a new node. A failure fails the node. With `must_claim_exist`, the claim of the data volume is not
    /// created.
    pub(super) fn setup_plan(self, id: &str, must_claim_exist: bool, now: &Time) -> TaskPlan {
        let (kind, mut tasks) = if self.kind.ceremony().is_some() {
            (PlanKind::Genesis, self.genesis_tasks())
        } else if let Some((_, height)) = self.kind.bootstrap().filter(|_| !self.has_set_up_data()) {
            (PlanKind::Bootstrap, self.bootstrap_tasks(height))
        } else {
            (PlanKind::Init, self.init_tasks())
        };
        if self.observed.certificate.is_some() {
            tasks.extend(self.unused_certificate_task());
        }
        let claim = tasks.iter_mut().find(|(step, _)| *step == Step::EnsureDataClaim);
        if let Some((_, Some(params))) = claim.filter(|_| must_claim_exist) {
            params[MUST_EXIST] = json!(true);
        }
        let changes = PlanChanges {
            pod: true,
            tls: true,
            keys: self.kind.key_secrets() != ObservedKeys::default(),
            config: ConfigChange::Full,
            snapshot_upload: self.kind.snapshot_generation().publish,
        };
        let failed_phase = Some(SeiNodePhase::Failed);
        TaskPlan { failed_phase, ..self.plan(id, kind, tasks, changes, now) }
    }

    /// Composes a plan that brings a running node in sync with its spec: an update, or a rollback. A failure leaves the
    /// node running. With `with_dry_run`, a changed configuration is checked before anything is changed. `seid_may_run` says whether
    /// seid may run in the current pod until the plan changes its template.
    pub(super) fn update_plan(
        self,
        id: &str,
        kind: PlanKind,
        changes: PlanChanges,
        with_dry_run: bool,
        seid_may_run: bool,
        now: &Time,
    ) -> TaskPlan {
        let mut tasks = Tasks::new();
        if with_dry_run && changes.config != ConfigChange::Unchanged {
            tasks.push(self.own(Step::DryRunConfig));
        }
        if changes.keys {
            tasks.extend(self.key_tasks());
        }
        if changes.tls {
            tasks.extend(self.certificate_tasks());
        }
        tasks.extend(self.object_tasks());
        let replacement = json!({
            "nodeName": self.name(), "namespace": self.namespace(), SEID_MAY_RUN: seid_may_run,
        });
        tasks.push((Step::ReplacePod, Some(replacement)));
        if changes.pod {
            tasks.push(self.own(Step::ObserveImage));
        }
        if changes.tls {
            tasks.push(self.own(Step::ObserveTls));
        }
        if changes.config != ConfigChange::Unchanged {
            tasks.push(self.config_apply(changes.config == ConfigChange::Incremental));
            tasks.extend(self.peer_tasks());
            tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        }
        if changes.snapshot_upload {
            tasks.push(sidecar(TaskType::SnapshotUpload, None::<()>));
        }
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        if changes.tls {
            tasks.extend(self.unused_certificate_task());
        }
        self.plan(id, kind, tasks, changes, now)
    }

    /// Composes the plan that lets seid start after a restart of the sidecar. If it interrupts an update, it stores the changes of
    /// that update.
    pub(super) fn mark_ready_plan(self, id: &str, interrupted: PlanChanges, now: &Time) -> TaskPlan {
        let tasks = vec![sidecar(TaskType::MarkReady, None::<()>)];
        let plan = self.plan(id, PlanKind::MarkReady, tasks, PlanChanges::default(), now);
        TaskPlan { changes: Some(interrupted), ..plan }
    }

    fn init_tasks(self) -> Tasks {
        let mut tasks = vec![self.own(Step::EnsureDataClaim)];
        tasks.extend(self.key_tasks());
        tasks.extend(self.pod_tasks());
        tasks.extend(self.sidecar_tasks(true));
        tasks
    }

    fn genesis_tasks(self) -> Tasks {
        let mut tasks = vec![self.own(Step::EnsureDataClaim)];
        tasks.extend(self.key_tasks());
        tasks.extend(self.pod_tasks());
        if let Some(ceremony) = self.kind.ceremony() {
            let identity =
                GenerateIdentity { chain_id: ceremony.chain_id.clone(), moniker: self.name().into() };
            let gentx = GenerateGentx {
                chain_id: ceremony.chain_id.clone(),
                staking_amount: ceremony.staking_amount.clone(),
                account_balance: ceremony.account_balance.clone(),
                genesis_params: ceremony.genesis_params.clone().unwrap_or_default(),
            };
            let upload = UploadGenesisArtifacts { node_name: self.name().into() };
            tasks.push(sidecar(TaskType::GenerateIdentity, Some(identity)));
            tasks.push(sidecar(TaskType::GenerateGentx, Some(gentx)));
            tasks.push(sidecar(TaskType::UploadGenesisArtifacts, Some(upload)));
        }
        tasks.push(self.configure_genesis());
        tasks.push(self.config_apply(false));
        tasks.extend(self.peer_tasks());
        tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        tasks
    }

    fn bootstrap_tasks(self, height: i64) -> Tasks {
        let job = json!({ "jobName": object::bootstrap_job(self.name()), "namespace": self.namespace() });
        let mut tasks = vec![self.own(Step::EnsureDataClaim)];
        // Before the Job: its pod mounts the ConfigMap.
        tasks.push(self.own(Step::ApplyNetworkPolicy));
        tasks.push(self.own(Step::ApplyProxyConfig));
        tasks.extend(self.key_tasks());
        // Also before the Job. The node's own pod waits for the certificate again: it may have expired until then.
        tasks.extend(self.certificate_tasks());
        let service = json!({ "serviceName": self.name(), "namespace": self.namespace() });
        tasks.push((Step::DeployBootstrapService, Some(service)));
        tasks.push((Step::DeployBootstrapJob, Some(job.clone())));
        let restore = SnapshotRestore { target_height: height };
        tasks.push(sidecar(TaskType::SnapshotRestore, Some(restore)));
        tasks.push(self.configure_genesis());
        tasks.push(self.config_apply(false));
        tasks.extend(self.peer_tasks());
        tasks.extend(self.state_sync_task());
        tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        tasks.push((Step::AwaitBootstrap, Some(job.clone())));
        tasks.push((Step::TeardownBootstrap, Some(job)));
        tasks.extend(self.pod_tasks());
        tasks.extend(self.sidecar_tasks(false));
        tasks
    }

    /// Returns whether the node takes over the data of a previous node with the same name. An older seid must not run on it again.
    fn has_set_up_data(self) -> bool {
        self.observed
            .claim
            .as_deref()
            .is_some_and(|claim| retention::is_left_behind(self.node, claim) && retention::is_set_up(claim))
    }

    /// Returns the tasks up to an observed pod. A setup that restarts may find a pod of an older revision.
    fn pod_tasks(self) -> Tasks {
        let mut tasks = self.certificate_tasks();
        tasks.extend(self.object_tasks());
        if self.observed.stateful_set.is_some() {
            tasks.push(self.own(Step::ReplacePod));
        }
        tasks.push(self.own(Step::ObserveImage));
        tasks.push(self.own(Step::ObserveTls));
        tasks
    }

    /// Returns the tasks that apply the node's objects. The ConfigMap precedes the StatefulSet, whose pod mounts it;
    /// the Service precedes the replacement of the pod, so that its ports exist when the new pod starts.
    fn object_tasks(self) -> Tasks {
        let template = json!({
            "nodeName": self.name(),
            "namespace": self.namespace(),
            // A plan continues after an edit only if the desired objects are the same.
            "template": render::desired_hash(self.node, self.platform),
            // Also in the plan itself. Previous versions read the peers from here.
            "peers": self.sources_with_peers(),
        });
        let mut tasks = vec![self.own(Step::ApplyNetworkPolicy), self.own(Step::ApplyProxyConfig)];
        if self.kind.can_sign() {
            tasks.push(self.own(Step::ApplyDisruptionBudget));
        }
        tasks.push((Step::ApplyStatefulSet, Some(template)));
        tasks.push(self.own(Step::ApplyService));
        tasks
    }

    fn key_tasks(self) -> Tasks {
        let keys = self.kind.key_secrets();
        let secret = |name: String| Some(json!({ "secretName": name, "namespace": self.namespace() }));
        let mut tasks = Tasks::new();
        tasks.extend(keys.signing_key.map(|name| (Step::ValidateSigningKey, secret(name))));
        tasks.extend(keys.node_key.map(|name| (Step::ValidateNodeKey, secret(name))));
        tasks.extend(keys.operator_keyring.map(|ring| {
            let params = json!({
                "secretName": ring.secret_name,
                "keyName": ring.key_name,
                "passphraseSecretName": ring.passphrase_secret_ref.secret_name,
                "passphraseSecretKey": ring.passphrase_secret_ref.key,
                "namespace": self.namespace(),
            });
            (Step::ValidateOperatorKeyring, Some(params))
        }));
        tasks
    }

    /// Returns the tasks that make the certificate available. A pod that serves TLS cannot start without it: it mounts
    /// the Secret.
    fn certificate_tasks(self) -> Tasks {
        let desired = tls::desired_tls(self.node);
        let mut tasks = Tasks::new();
        if desired.issuer.is_some() {
            tasks.push(self.own(Step::ApplyCertificate));
        }
        if desired.secret_name.is_some() {
            tasks.push(self.own(Step::WaitForTlsSecret));
        }
        tasks
    }

    /// Returns the task that deletes a Certificate which is no longer served. It comes last: until then it was served.
    fn unused_certificate_task(self) -> Option<(Step, Option<Value>)> {
        tls::desired_tls(self.node).issuer.is_none().then(|| self.own(Step::RemoveCertificate))
    }

    /// Returns the tasks of the sidecar before seid may start.
    fn sidecar_tasks(self, with_snapshot: bool) -> Tasks {
        let mut tasks = Tasks::new();
        let snapshot = self.kind.snapshot().filter(|_| with_snapshot);
        if let Some(s3) = snapshot.and_then(|snapshot| snapshot.s3.as_ref()) {
            let restore = SnapshotRestore { target_height: s3.target_height };
            tasks.push(sidecar(TaskType::SnapshotRestore, Some(restore)));
        }
        tasks.push(self.configure_genesis());
        tasks.push(self.config_apply(false));
        tasks.extend(self.peer_tasks());
        if with_snapshot {
            tasks.extend(self.state_sync_task());
        }
        tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        if self.kind.snapshot_generation().publish {
            tasks.push(sidecar(TaskType::SnapshotUpload, None::<()>));
        }
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        tasks
    }

    fn configure_genesis(self) -> (Step, Option<Value>) {
        let params = self
            .node
            .spec
            .genesis_hash
            .clone()
            .map(|hash| ConfigureGenesis { expected_genesis_hash: Some(hash) });
        sidecar(TaskType::ConfigureGenesis, params)
    }

    fn config_apply(self, incremental: bool) -> (Step, Option<Value>) {
        let params = ConfigApply {
            mode: Some(self.kind.config_mode()),
            incremental,
            target_version: 0,
            overrides: settings(self.node, self.kind),
        };
        sidecar(TaskType::ConfigApply, Some(params))
    }

    /// Returns the tasks that find peers. The validators of a new chain know each other from the genesis ceremony.
    fn peer_tasks(self) -> Tasks {
        let mut tasks = Tasks::new();
        if self.kind.ceremony().is_some() {
            tasks.push(sidecar(TaskType::SetGenesisPeers, None::<()>));
        }
        let sources: Vec<PeerDiscovery> = self
            .node
            .spec
            .peers
            .iter()
            .enumerate()
            .filter_map(|(index, source)| self.source(index, source))
            .collect();
        // The sidecar rejects a task without sources. A label source becomes drift once it selects a node.
        if !sources.is_empty() && self.kind.ceremony().is_none() {
            tasks.push(sidecar(TaskType::DiscoverPeers, Some(DiscoverPeers { sources })));
        }
        tasks
    }

    fn source(self, index: usize, source: &PeerSource) -> Option<PeerDiscovery> {
        if let Some(ec2) = &source.ec2_tags {
            return Some(PeerDiscovery::Ec2Tags { region: ec2.region.clone(), tags: ec2.tags.clone() });
        }
        if let Some(fixed) = &source.static_peers {
            return Some(PeerDiscovery::Static { addresses: fixed.addresses.clone() });
        }
        let endpoints = self.observed.label_peers.get(&index).filter(|peers| !peers.is_empty())?.clone();
        Some(PeerDiscovery::DnsEndpoints { endpoints })
    }

    fn state_sync_task(self) -> Option<(Step, Option<Value>)> {
        let snapshot = self.kind.snapshot()?;
        let params = ConfigureStateSync {
            use_local_snapshot: snapshot.s3.is_some(),
            trust_period: snapshot.trust_period.clone().unwrap_or_default(),
            backfill_blocks: snapshot.backfill_blocks.unwrap_or_default(),
            rpc_servers: Vec::new(),
        };
        Some(sidecar(TaskType::ConfigureStateSync, Some(params)))
    }

    fn own(self, step: Step) -> (Step, Option<Value>) {
        (step, Some(json!({ "nodeName": self.name(), "namespace": self.namespace() })))
    }

    fn sources_with_peers(self) -> Vec<PeerSource> {
        drift::sources_with_peers(&self.node.spec.peers, &self.observed.label_peers)
    }

    fn plan(self, id: &str, kind: PlanKind, tasks: Tasks, changes: PlanChanges, now: &Time) -> TaskPlan {
        let tasks = tasks.into_iter().enumerate().map(|(index, (step, params))| PlannedTask {
            task_type: step.name().into(),
            id: task::id(id, step, index),
            status: TaskStatus::Pending,
            params,
            submitted_at: None,
            error: None,
            max_retries: (step.retries() > 0).then(|| step.retries()),
            retry_count: None,
        });
        TaskPlan {
            id: id.into(),
            kind: Some(kind),
            generation: self.node.metadata.generation,
            created_at: Some(now.clone()),
            phase: PlanPhase::Active,
            tasks: tasks.collect(),
            target_phase: Some(SeiNodePhase::Running),
            failed_phase: None,
            failed_task_index: None,
            failed_task_detail: None,
            changes: Some(changes),
            // Stored, since the nodes that a label selects may change while the plan runs.
            peers: (changes.config != ConfigChange::Unchanged).then(|| self.sources_with_peers()),
        }
    }
}

fn sidecar<P: Serialize>(task: TaskType, params: Option<P>) -> (Step, Option<Value>) {
    // Parameters are plain data: serialization cannot fail.
    let params = params.and_then(|params| serde_json::to_value(params).ok());
    (Step::Sidecar(task), params)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operator is permitted to submit exactly these.
    #[test]
    fn submitted_tasks_are_those_that_plans_are_composed_of() {
        let (_, code) = include_str!("compose.rs").split_once("impl NodeContext").unwrap();
        let (code, _) = code.split_once("#[cfg(test)]").unwrap();
        let composed = TaskType::ALL.iter().copied().filter(|task| {
            let name = format!("TaskType::{task:?}");
            code.match_indices(&name)
                .any(|(at, _)| !code[at + name.len()..].starts_with(char::is_alphanumeric))
        });
        let mut composed: Vec<&str> = composed.map(TaskType::as_str).collect();
        let mut submitted = SUBMITTED_TASKS.map(TaskType::as_str);
        composed.sort_unstable();
        submitted.sort_unstable();
        assert_eq!(composed, submitted);
    }
}
