//! Plans: which steps, in which order, with what.

use api::SeiNode;
use api::names::object;
use api::sei_node::{PeerSource, PlanKind, PlanPhase, PlannedTask, SeiNodePhase, TaskPlan, TaskStatus};
use api::sidecar_wire::{
    ConfigApply, ConfigureStateSync, DiscoverPeers, GenerateGentx, GenerateIdentity, PeerDiscovery,
    SnapshotRestore, TaskType, UploadGenesisArtifacts,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Value, json};

use super::drift::{self, Config, Parts};
use super::kind::Kind;
use super::settings::settings;
use super::task::{self, Step};
use super::world::World;
use crate::platform::Platform;
use crate::render;

/// What a plan is composed from.
#[derive(Clone, Copy)]
pub(super) struct Composer<'a> {
    pub(super) node: &'a SeiNode,
    pub(super) kind: Kind<'a>,
    pub(super) platform: &'a Platform,
    pub(super) world: &'a World,
}

/// Steps with their parameters.
type Tasks = Vec<(Step, Option<Value>)>;

impl<'a> Composer<'a> {
    /// The plan that sets a new node up.
    pub(super) fn init(self, id: &str, now: &Time) -> TaskPlan {
        let (kind, mut tasks) = if self.kind.ceremony().is_some() {
            (PlanKind::Genesis, self.genesis())
        } else if let Some((_, height)) = self.kind.bootstrap() {
            (PlanKind::Bootstrap, self.bootstrap(height))
        } else {
            (PlanKind::Init, self.base())
        };
        if self.world.certificate.is_some() {
            tasks.extend(self.superfluous_certificate());
        }
        self.plan(id, kind, tasks, Some(SeiNodePhase::Failed), now)
    }

    /// The plan that brings a running node to its spec. A failure leaves the node running.
    pub(super) fn update(self, id: &str, parts: Parts, now: &Time) -> TaskPlan {
        let mut tasks = Tasks::new();
        if parts.keys {
            tasks.extend(self.keys());
        }
        if parts.tls {
            tasks.extend(self.certificate());
        }
        tasks.extend(self.objects());
        tasks.push(self.own(Step::ReplacePod));
        if parts.pod {
            tasks.push(self.own(Step::ObserveImage));
        }
        if parts.tls {
            tasks.push(self.own(Step::ObserveTls));
        }
        if parts.config != Config::Kept {
            tasks.push(self.config_apply(parts.config == Config::Changed));
            tasks.extend(self.peers());
            tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        }
        if parts.publish {
            tasks.push(sidecar(TaskType::SnapshotUpload, None::<()>));
        }
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        if parts.tls {
            tasks.extend(self.superfluous_certificate());
        }
        self.plan(id, PlanKind::NodeUpdate, tasks, None, now)
    }

    /// The plan that tells a sidecar which has restarted that seid may start.
    pub(super) fn mark_ready(self, id: &str, now: &Time) -> TaskPlan {
        let tasks = vec![sidecar(TaskType::MarkReady, None::<()>)];
        self.plan(id, PlanKind::MarkReady, tasks, None, now)
    }

    fn base(self) -> Tasks {
        let mut tasks = vec![self.own(Step::EnsureDataClaim)];
        tasks.extend(self.keys());
        tasks.extend(self.pod());
        tasks.extend(self.progression(true));
        tasks
    }

    fn genesis(self) -> Tasks {
        let mut tasks = vec![self.own(Step::EnsureDataClaim)];
        tasks.extend(self.keys());
        tasks.extend(self.pod());
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
        tasks.push(sidecar(TaskType::ConfigureGenesis, None::<()>));
        tasks.push(self.config_apply(false));
        tasks.extend(self.peers());
        tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        tasks
    }

    fn bootstrap(self, height: i64) -> Tasks {
        let job = json!({ "jobName": object::bootstrap_job(self.name()), "namespace": self.namespace() });
        let mut tasks = vec![self.own(Step::EnsureDataClaim)];
        // Before the Job: its pod mounts the configuration.
        tasks.push(self.own(Step::ApplyNetworkPolicy));
        tasks.push(self.own(Step::ApplyProxyConfig));
        tasks.extend(self.keys());
        let service = json!({ "serviceName": self.name(), "namespace": self.namespace() });
        tasks.push((Step::DeployBootstrapService, Some(service)));
        tasks.push((Step::DeployBootstrapJob, Some(job.clone())));
        let restore = SnapshotRestore { target_height: height };
        tasks.push(sidecar(TaskType::SnapshotRestore, Some(restore)));
        tasks.push(sidecar(TaskType::ConfigureGenesis, None::<()>));
        tasks.push(self.config_apply(false));
        tasks.extend(self.peers());
        tasks.extend(self.state_sync());
        tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        tasks.push((Step::AwaitBootstrap, Some(job.clone())));
        tasks.push((Step::TeardownBootstrap, Some(job)));
        tasks.extend(self.pod());
        tasks.extend(self.progression(false));
        tasks
    }

    /// Everything until a pod of the node is there and was looked at. A node that was begun before may have a pod of an
    /// older revision.
    fn pod(self) -> Tasks {
        let mut tasks = self.certificate();
        tasks.extend(self.objects());
        if self.world.stateful_set.is_some() {
            tasks.push(self.own(Step::ReplacePod));
        }
        tasks.push(self.own(Step::ObserveImage));
        tasks.push(self.own(Step::ObserveTls));
        tasks
    }

    /// The objects that a pod is made from. The proxy's configuration comes first, since the pod mounts it; the Service comes
    /// before the pod is replaced, so that its ports are there when the new pod is.
    fn objects(self) -> Tasks {
        let template = json!({
            "nodeName": self.name(),
            "namespace": self.namespace(),
            // What was wanted when the plan was made: a plan goes on only as long as the same is wanted.
            "template": render::wish(self.node, self.platform),
            // What seid is given peers of by this plan: nodes that labels select may come and go while it is carried out.
            "peers": drift::peers_that_are_there(&self.node.spec.peers, &self.world.label_peers),
        });
        vec![
            self.own(Step::ApplyNetworkPolicy),
            self.own(Step::ApplyProxyConfig),
            (Step::ApplyStatefulSet, Some(template)),
            self.own(Step::ApplyService),
        ]
    }

    fn keys(self) -> Tasks {
        let keys = self.kind.keys();
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

    /// What must be there before a pod that serves by TLS is made: without it, the pod hangs on a volume that is not there.
    fn certificate(self) -> Tasks {
        let wanted = drift::tls(self.node);
        let mut tasks = Tasks::new();
        if wanted.issuer_name.is_some() {
            tasks.push(self.own(Step::ApplyCertificate));
        }
        if wanted.secret_name.is_some() {
            tasks.push(self.own(Step::WaitForTlsSecret));
        }
        tasks
    }

    /// A certificate that an issuer was asked for, and that nothing serves any more. It goes last: until then it was served.
    fn superfluous_certificate(self) -> Option<(Step, Option<Value>)> {
        drift::tls(self.node).issuer_name.is_none().then(|| self.own(Step::RemoveCertificate))
    }

    /// What the sidecar does before it lets seid start.
    fn progression(self, with_snapshot: bool) -> Tasks {
        let mut tasks = Tasks::new();
        let snapshot = self.kind.snapshot().filter(|_| with_snapshot);
        if let Some(s3) = snapshot.and_then(|snapshot| snapshot.s3.as_ref()) {
            let restore = SnapshotRestore { target_height: s3.target_height };
            tasks.push(sidecar(TaskType::SnapshotRestore, Some(restore)));
        }
        tasks.push(sidecar(TaskType::ConfigureGenesis, None::<()>));
        tasks.push(self.config_apply(false));
        tasks.extend(self.peers());
        if with_snapshot {
            tasks.extend(self.state_sync());
        }
        tasks.push(sidecar(TaskType::ConfigValidate, None::<()>));
        if self.kind.snapshot_generation().publish {
            tasks.push(sidecar(TaskType::SnapshotUpload, None::<()>));
        }
        tasks.push(sidecar(TaskType::MarkReady, None::<()>));
        tasks
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

    /// Where peers come from. Validators of a new chain know each other from its making.
    fn peers(self) -> Tasks {
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
        // A task without a source would be refused: a label that selects nobody is looked at again when somebody comes.
        if !sources.is_empty() && self.kind.ceremony().is_none() {
            tasks.push(sidecar(TaskType::DiscoverPeers, Some(DiscoverPeers { sources })));
        }
        tasks
    }

    fn source(self, index: usize, source: &PeerSource) -> Option<PeerDiscovery> {
        if let Some(ec2) = &source.ec2_tags {
            return Some(PeerDiscovery::Ec2Tags { region: ec2.region.clone(), tags: ec2.tags.clone() });
        }
        if let Some(fixed) = &source.fixed {
            return Some(PeerDiscovery::Static { addresses: fixed.addresses.clone() });
        }
        let endpoints = self.world.label_peers.get(&index).filter(|peers| !peers.is_empty())?.clone();
        Some(PeerDiscovery::DnsEndpoints { endpoints })
    }

    fn state_sync(self) -> Option<(Step, Option<Value>)> {
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

    fn name(self) -> &'a str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(self) -> &'a str {
        self.node.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn plan(
        self,
        id: &str,
        kind: PlanKind,
        tasks: Tasks,
        failed_phase: Option<SeiNodePhase>,
        now: &Time,
    ) -> TaskPlan {
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
            failed_phase,
            failed_task_index: None,
            failed_task_detail: None,
        }
    }
}

fn sidecar<P: Serialize>(task: TaskType, params: Option<P>) -> (Step, Option<Value>) {
    // Parameters are plain data, which can always be written.
    let params = params.and_then(|params| serde_json::to_value(params).ok());
    (Step::Sidecar(task), params)
}

/// What a stored plan was to bring about, read from its steps.
pub(super) fn parts_of(plan: &TaskPlan) -> Parts {
    let has = |step: Step| plan.tasks.iter().any(|task| task.task_type == step.name());
    let anew = plan.tasks.iter().any(|task| {
        let incremental = task.params.as_ref().map(|params| params["incremental"] == true);
        task.task_type == TaskType::ConfigApply.as_str() && incremental != Some(true)
    });
    Parts {
        pod: has(Step::ObserveImage),
        tls: has(Step::ObserveTls),
        keys: has(Step::ValidateSigningKey)
            || has(Step::ValidateNodeKey)
            || has(Step::ValidateOperatorKeyring),
        config: match (has(Step::Sidecar(TaskType::ConfigApply)), anew) {
            (false, _) => Config::Kept,
            (true, false) => Config::Changed,
            (true, true) => Config::Anew,
        },
        publish: has(Step::Sidecar(TaskType::SnapshotUpload)),
    }
}

/// The sources that a stored plan gives seid peers of.
pub(super) fn peers_of(plan: &TaskPlan) -> Option<Vec<PeerSource>> {
    let apply = plan.tasks.iter().find(|task| task.task_type == Step::ApplyStatefulSet.name())?;
    serde_json::from_value(apply.params.as_ref()?.get("peers")?.clone()).ok()
}

/// Whether two plans would do the same. That a pod of an older revision is to be replaced follows from the world and not from
/// the spec: a node whose StatefulSet has been made since is not begun anew for it.
pub(super) fn same_work(one: &TaskPlan, other: &TaskPlan) -> bool {
    let work = |plan: &TaskPlan| -> Vec<(String, Option<Value>)> {
        let steps = plan.tasks.iter().filter(|task| task.task_type != Step::ReplacePod.name());
        steps.map(|task| (task.task_type.clone(), task.params.clone())).collect()
    };
    one.kind == other.kind && work(one) == work(other)
}
