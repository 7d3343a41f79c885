//! The steps of plans: their names, retries, time limits and task ids.

use std::time::Duration;

use api::names::task::node as name;
use api::sidecar_wire::TaskType;
use uuid::Uuid;

/// The UUID namespace of task ids. It is that of the upstream controller, so that plans it has stored can continue.
const NAMESPACE: Uuid = Uuid::from_u128(0xb7e8_9c3a_4f12_4d8b_9a6e_1c2d_3e4f_5a6b);

/// A step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Create the claim of the data volume, or validate the imported one.
    EnsureDataClaim,
    /// Validate the key that signs blocks.
    ValidateSigningKey,
    /// Validate the key that identifies the node.
    ValidateNodeKey,
    /// Validate the keys of the operator account.
    ValidateOperatorKeyring,
    /// Ask the running sidecar whether it would accept the new configuration.
    DryRunConfig,
    /// Apply the Certificate of the sidecar API.
    ApplyCertificate,
    /// Wait for the Secret with the certificate of the sidecar API.
    WaitForTlsSecret,
    /// Delete the Certificate of the sidecar API.
    RemoveCertificate,
    /// Apply the NetworkPolicy.
    ApplyNetworkPolicy,
    /// Apply the configuration of the proxy.
    ApplyProxyConfig,
    /// Apply the PodDisruptionBudget of a validator.
    ApplyDisruptionBudget,
    /// Apply the StatefulSet.
    ApplyStatefulSet,
    /// Apply the Service.
    ApplyService,
    /// Delete the pod if it has an older revision.
    ReplacePod,
    /// Wait until seid runs, and record what the pod was created with.
    ObserveImage,
    /// Observe how the sidecar API is served.
    ObserveTls,
    /// Create the Service of the bootstrap pod.
    DeployBootstrapService,
    /// Create the bootstrap Job.
    DeployBootstrapJob,
    /// Wait until the bootstrap Job has completed.
    AwaitBootstrap,
    /// Delete the bootstrap Job and its Service.
    TeardownBootstrap,
    /// Run a task of the sidecar.
    Sidecar(TaskType),
}

/// The steps that the operator executes itself, with their names in stored plans.
const OPERATOR_STEPS: [(Step, &str); 20] = [
    (Step::EnsureDataClaim, name::ENSURE_DATA_PVC),
    (Step::ValidateSigningKey, name::VALIDATE_SIGNING_KEY),
    (Step::ValidateNodeKey, name::VALIDATE_NODE_KEY),
    (Step::ValidateOperatorKeyring, name::VALIDATE_OPERATOR_KEYRING),
    (Step::DryRunConfig, name::DRY_RUN_CONFIG),
    (Step::ApplyCertificate, name::APPLY_SIDECAR_CERT),
    (Step::WaitForTlsSecret, name::WAIT_FOR_SIDECAR_TLS_SECRET),
    (Step::RemoveCertificate, name::REMOVE_SIDECAR_CERT),
    (Step::ApplyNetworkPolicy, name::APPLY_NETWORK_POLICY),
    (Step::ApplyProxyConfig, name::APPLY_PROXY_CONFIG),
    (Step::ApplyDisruptionBudget, name::APPLY_DISRUPTION_BUDGET),
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
    /// Returns the name in stored plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sidecar(task) => task.as_str(),
            own => OPERATOR_STEPS.iter().find(|(step, _)| *step == own).map_or("", |(_, name)| name),
        }
    }

    /// Returns the step with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let own = OPERATOR_STEPS.iter().find(|(_, known)| *known == name).map(|(step, _)| *step);
        own.or_else(|| TaskType::from_name(name).map(Self::Sidecar))
    }

    /// Returns how often the step is retried.
    #[must_use]
    pub fn retries(self) -> i32 {
        match self {
            // The genesis file may not be assembled yet.
            Self::Sidecar(TaskType::ConfigureGenesis | TaskType::AssembleAndUploadGenesis) => 180,
            Self::Sidecar(TaskType::DiscoverPeers) => 20,
            _ => 0,
        }
    }

    /// Returns the deadline of the step, for all waits and attempts together.
    #[must_use]
    pub fn limit(self) -> Duration {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        Duration::from_secs(match self {
            // Created by people or other systems.
            Self::EnsureDataClaim
            | Self::ValidateSigningKey
            | Self::ValidateNodeKey
            | Self::ValidateOperatorKeyring => HOUR,
            // The first mount of a volume of terabytes changes its ownership, which takes half an hour.
            Self::ObserveImage | Self::ObserveTls => HOUR,
            // Only a check: the edit may be what repairs a sidecar that does not answer.
            Self::DryRunConfig => 15,
            Self::WaitForTlsSecret | Self::TeardownBootstrap => 15 * MINUTE,
            // seid may take two minutes to terminate, and the volume must be detached after that.
            Self::ReplacePod => 15 * MINUTE,
            Self::AwaitBootstrap => 7 * 24 * HOUR,
            Self::Sidecar(TaskType::SnapshotRestore) => 48 * HOUR,
            Self::Sidecar(TaskType::ConfigureGenesis | TaskType::AssembleAndUploadGenesis) => 2 * HOUR,
            // Includes scheduling a bootstrap pod and pulling its image, for the first of them.
            Self::Sidecar(_) => HOUR,
            _ => 10 * MINUTE,
        })
    }

    /// Returns whether the step is complete once its task was accepted: the task runs in the background.
    #[must_use]
    pub fn runs_in_background(self) -> bool {
        self == Self::Sidecar(TaskType::SnapshotUpload)
    }

    /// Returns whether the plan continues after the deadline of the step.
    #[must_use]
    pub fn is_skipped_at_deadline(self) -> bool {
        self == Self::DryRunConfig
    }

    /// Returns whether the step deletes objects that show whether previous tasks are complete.
    #[must_use]
    pub fn deletes_task_evidence(self) -> bool {
        self == Self::TeardownBootstrap
    }
}

/// Returns the id of a task. It is the same for every attempt, and different in every plan.
#[must_use]
pub fn id(plan: &str, step: Step, index: usize) -> String {
    Uuid::new_v5(&NAMESPACE, format!("{plan}/{}/{index}", step.name()).as_bytes()).to_string()
}

/// The first and the longest backoff before a failed plan is tried again.
const FIRST_PLAN_BACKOFF: Duration = Duration::from_secs(30);
const LONGEST_PLAN_BACKOFF: Duration = Duration::from_secs(600);

/// Returns the backoff before a retry, where `retries` counts the retries so far.
#[must_use]
pub fn backoff(retries: i32) -> Duration {
    let doubled = 5_u64.saturating_mul(1 << retries.clamp(0, 5));
    Duration::from_secs(doubled.min(30))
}

/// Returns the backoff before a failed plan is tried again, after this many attempts.
#[must_use]
pub fn plan_backoff(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts.clamp(1, 10) - 1).unwrap_or_default();
    FIRST_PLAN_BACKOFF.saturating_mul(1 << doublings).min(LONGEST_PLAN_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_round_trip() {
        let all = OPERATOR_STEPS
            .iter()
            .map(|(step, _)| *step)
            .chain(TaskType::ALL.iter().map(|task| Step::Sidecar(*task)));
        for step in all {
            assert_eq!(Step::from_name(step.name()), Some(step), "{step:?}");
        }
        assert_eq!(Step::from_name("dance"), None);
        assert_eq!(OPERATOR_STEPS.len(), name::ALL.len(), "every task name of a node is a step");
    }

    #[test]
    fn task_ids_match_the_upstream_controller() {
        // From Python: uuid.uuid5(namespace, "<plan>/ensure-data-pvc/0").
        let plan = "6f4d2a0e-7d0c-4a51-9d2f-7a86a3f5a7b1";
        assert_eq!(id(plan, Step::EnsureDataClaim, 0), FIRST_ID);
        assert_ne!(
            id(plan, Step::Sidecar(TaskType::ConfigApply), 3),
            id(plan, Step::Sidecar(TaskType::ConfigApply), 9)
        );
    }

    const FIRST_ID: &str = "e4b7d359-ea25-53fe-a6a9-589376bd44b1";

    #[test]
    fn backoff_grows_to_30_seconds() {
        let seconds: Vec<u64> = (1..6).map(|retries| backoff(retries).as_secs()).collect();
        assert_eq!(seconds, [10, 20, 30, 30, 30]);
    }

    #[test]
    fn plan_backoff_grows_to_ten_minutes() {
        let seconds: Vec<u64> =
            [1, 2, 3, 4, 5, 6, 100].map(|attempts| plan_backoff(attempts).as_secs()).into();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 600, 600]);
    }
}
