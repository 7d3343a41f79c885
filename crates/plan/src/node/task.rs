//! The steps that plans are made of: their names, how often and how long each is tried, and how each is identified.

use std::time::Duration;

use api::names::task::node as name;
use api::sidecar_wire::TaskType;
use uuid::Uuid;

/// Ids of tasks are derived in this namespace. It is that of the operator that we replace, so that its plans go on.
const NAMESPACE: Uuid = Uuid::from_u128(0xb7e8_9c3a_4f12_4d8b_9a6e_1c2d_3e4f_5a6b);

/// A step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Make the data volume's claim, or check the imported one.
    EnsureDataClaim,
    /// Check the key that signs blocks.
    ValidateSigningKey,
    /// Check the key that identifies the node.
    ValidateNodeKey,
    /// Check the operating account's keys.
    ValidateOperatorKeyring,
    /// Ask for the sidecar's certificate.
    ApplyCertificate,
    /// Wait until the sidecar's certificate is there.
    WaitForTlsSecret,
    /// Remove the sidecar's certificate.
    RemoveCertificate,
    /// Say who may reach which port.
    ApplyNetworkPolicy,
    /// Write the proxy's configuration.
    ApplyProxyConfig,
    /// Write the StatefulSet.
    ApplyStatefulSet,
    /// Write the Service.
    ApplyService,
    /// Delete the pod of an older revision.
    ReplacePod,
    /// See that the image runs, and with what else the pod was made.
    ObserveImage,
    /// See how the sidecar's API is served.
    ObserveTls,
    /// Make the bootstrap pod's Service.
    DeployBootstrapService,
    /// Make the bootstrap pod.
    DeployBootstrapJob,
    /// Wait until the bootstrap pod is done.
    AwaitBootstrap,
    /// Delete the bootstrap pod and its Service.
    TeardownBootstrap,
    /// Have the sidecar do something.
    Sidecar(TaskType),
}

/// The steps that the operator does itself, with their names in stored plans.
const OWN: [(Step, &str); 18] = [
    (Step::EnsureDataClaim, name::ENSURE_DATA_PVC),
    (Step::ValidateSigningKey, name::VALIDATE_SIGNING_KEY),
    (Step::ValidateNodeKey, name::VALIDATE_NODE_KEY),
    (Step::ValidateOperatorKeyring, name::VALIDATE_OPERATOR_KEYRING),
    (Step::ApplyCertificate, name::APPLY_SIDECAR_CERT),
    (Step::WaitForTlsSecret, name::WAIT_FOR_SIDECAR_TLS_SECRET),
    (Step::RemoveCertificate, name::REMOVE_SIDECAR_CERT),
    (Step::ApplyNetworkPolicy, name::APPLY_NETWORK_POLICY),
    (Step::ApplyProxyConfig, name::APPLY_PROXY_CONFIG),
    (Step::ApplyStatefulSet, name::APPLY_STATEFULSET),
    (Step::ApplyService, name::APPLY_SERVICE),
    (Step::ReplacePod, name::REPLACE_POD),
    (Step::ObserveImage, name::OBSERVE_IMAGE),
    (Step::ObserveTls, name::OBSERVE_SIDECAR_TLS),
    (Step::DeployBootstrapService, name::DEPLOY_BOOTSTRAP_SERVICE),
    (Step::DeployBootstrapJob, name::DEPLOY_BOOTSTRAP_JOB),
    (Step::AwaitBootstrap, name::AWAIT_BOOTSTRAP_COMPLETE),
    (Step::TeardownBootstrap, name::TEARDOWN_BOOTSTRAP),
];

impl Step {
    /// Its name in stored plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sidecar(task) => task.as_str(),
            own => OWN.iter().find(|(step, _)| *step == own).map_or("", |(_, name)| name),
        }
    }

    /// The step with a name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let own = OWN.iter().find(|(_, known)| *known == name).map(|(step, _)| *step);
        own.or_else(|| TaskType::from_name(name).map(Self::Sidecar))
    }

    /// How often it is tried again.
    #[must_use]
    pub fn retries(self) -> i32 {
        match self {
            // A genesis file that others are still making.
            Self::Sidecar(TaskType::ConfigureGenesis | TaskType::AssembleAndUploadGenesis) => 180,
            Self::Sidecar(TaskType::DiscoverPeers) => 20,
            _ => 0,
        }
    }

    /// How long it may take in all, waits and attempts together.
    #[must_use]
    pub fn limit(self) -> Duration {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        Duration::from_secs(match self {
            // Objects that people or other systems make.
            Self::EnsureDataClaim
            | Self::ValidateSigningKey
            | Self::ValidateNodeKey
            | Self::ValidateOperatorKeyring => HOUR,
            // A first mount that changes the owner of terabytes takes half an hour.
            Self::ObserveImage | Self::ObserveTls => HOUR,
            Self::WaitForTlsSecret | Self::TeardownBootstrap => 15 * MINUTE,
            // A seid that is in the middle of a block is given two minutes to end, and a volume some to be let go.
            Self::ReplacePod => 15 * MINUTE,
            Self::AwaitBootstrap => 7 * 24 * HOUR,
            Self::Sidecar(TaskType::SnapshotRestore) => 48 * HOUR,
            Self::Sidecar(TaskType::ConfigureGenesis | TaskType::AssembleAndUploadGenesis) => 2 * HOUR,
            // Before the first of them a bootstrap pod may have to be scheduled, and its image pulled.
            Self::Sidecar(_) => HOUR,
            _ => 10 * MINUTE,
        })
    }

    /// Whether it is done once it was begun: its end is not waited for, or there is none.
    #[must_use]
    pub fn is_only_begun(self) -> bool {
        self == Self::Sidecar(TaskType::SnapshotUpload)
    }

    /// Whether it deletes what the tasks before it are judged by.
    #[must_use]
    pub fn takes_evidence_away(self) -> bool {
        self == Self::TeardownBootstrap
    }
}

/// The id of a task: the same for every attempt, and different in every plan.
#[must_use]
pub fn id(plan: &str, step: Step, index: usize) -> String {
    Uuid::new_v5(&NAMESPACE, format!("{plan}/{}/{index}", step.name()).as_bytes()).to_string()
}

/// The wait before an attempt; `retries` is how many there were before it.
#[must_use]
pub fn backoff(retries: i32) -> Duration {
    let doubled = 5_u64.saturating_mul(1 << retries.clamp(0, 5));
    Duration::from_secs(doubled.min(30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_one_name() {
        let all =
            OWN.iter().map(|(step, _)| *step).chain(TaskType::ALL.iter().map(|task| Step::Sidecar(*task)));
        for step in all {
            assert_eq!(Step::from_name(step.name()), Some(step), "{step:?}");
        }
        assert_eq!(Step::from_name("dance"), None);
        assert_eq!(OWN.len(), name::ALL.len(), "every name of a node's task is a step");
    }

    #[test]
    fn ids_are_those_of_the_operator_before_us() {
        // Made with Python's uuid.uuid5 from the namespace and the text of the specification.
        let plan = "6f4d2a0e-7d0c-4a51-9d2f-7a86a3f5a7b1";
        assert_eq!(id(plan, Step::EnsureDataClaim, 0), ID_OF_FIRST);
        assert_ne!(
            id(plan, Step::Sidecar(TaskType::ConfigApply), 3),
            id(plan, Step::Sidecar(TaskType::ConfigApply), 9)
        );
    }

    const ID_OF_FIRST: &str = "e4b7d359-ea25-53fe-a6a9-589376bd44b1";

    #[test]
    fn waits_before_attempts_grow_to_half_a_minute() {
        let waits: Vec<u64> = (1..6).map(|retries| backoff(retries).as_secs()).collect();
        assert_eq!(waits, [10, 20, 30, 30, 30]);
    }
}
