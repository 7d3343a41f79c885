//! Evaluates the steps of a plan against the observed state. Evaluation is pure: a step returns what to do, and the
//! status changes it asks for, as data.

mod bootstrap;
mod dry_run;
mod inputs;
mod objects;
mod pod;
mod sidecar;
mod tls;

use api::sei_node::{PlannedTask, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) use bootstrap::job_result;
pub(super) use dry_run::config_dry_run;
pub(super) use sidecar::{sidecar_transport, submitted};

use super::action::{Action, Object};
use super::context::NodeContext;
use super::status_change::StatusChange;
use super::task::Step;
use crate::render;

/// The result of evaluating a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StepOutcome {
    /// The step is complete. The change, if any, goes into the status.
    Done(Option<StatusChange>),
    /// The plan continues without the effect of the step, for this reason.
    Skipped(String),
    /// The operator must execute an action.
    Act(Action),
    /// Something else must happen first.
    Wait(Wait),
    /// An attempt failed, for a reason that may go away. The step, or its plan, is retried.
    Failed(String),
    /// The step can never succeed with this spec.
    Fatal(String),
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The kind of the object.
    pub(super) what: &'static str,
    /// The name of the object.
    pub(super) name: String,
    /// What is known about it.
    pub(super) message: Option<String>,
    /// Replaces the message when the wait takes long: where it hangs, and what to check.
    pub(super) late_message: Option<String>,
    /// The object cannot be watched and must be polled.
    pub(super) is_polled: bool,
    /// Another node uses the object.
    pub(super) is_in_use: bool,
}

impl StepOutcome {
    /// A completed step without a status change.
    const DONE: Self = Self::Done(None);

    /// A wait for an object that is watched.
    fn wait(what: &'static str, name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Wait(Wait {
            what,
            name: name.into(),
            message: Some(message.into()),
            late_message: None,
            is_polled: false,
            is_in_use: false,
        })
    }

    /// A wait for an answer that must be polled. Without a message the answer is pending.
    fn poll(what: &'static str, name: impl Into<String>, message: Option<String>) -> Self {
        let name = name.into();
        Self::Wait(Wait { what, name, message, late_message: None, is_polled: true, is_in_use: false })
    }

    /// A wait for an input that people or other systems provide. Secrets are polled: the operator is not permitted to watch them.
    fn wait_for_input(what: &'static str, name: impl Into<String>, message: impl Into<String>) -> Self {
        match what {
            "Secret" => Self::poll(what, name, Some(message.into())),
            _ => Self::wait(what, name, message),
        }
    }

    /// A wait until no other node uses an object. It is polled: the pod of a deleted node is found by what it mounts.
    fn wait_for_other_node(what: &'static str, name: impl Into<String>, message: String) -> Self {
        let (name, message) = (name.into(), Some(message));
        Self::Wait(Wait { what, name, message, late_message: None, is_polled: true, is_in_use: true })
    }
}

/// Evaluates a step of a plan in a status.
pub(super) fn evaluate(
    context: NodeContext<'_>,
    step: Step,
    task: &PlannedTask,
    status: &SeiNodeStatus,
    now: &Time,
) -> StepOutcome {
    let NodeContext { node, platform, observed, .. } = context;
    match step {
        Step::EnsureDataClaim => inputs::data_claim(context, task),
        Step::ValidateSigningKey => inputs::signing_key(context),
        Step::ValidateNodeKey => inputs::node_key(context),
        Step::ValidateOperatorKeyring => inputs::operator_keyring(context),
        Step::DryRunConfig => dry_run::check_config(context, status),
        Step::ApplyCertificate => {
            let desired = || render::certificate(node);
            objects::apply(context, observed.certificate.as_deref(), desired, Object::Certificate)
        }
        Step::WaitForTlsSecret => tls::wait_for_secret(context, status, now),
        Step::RemoveCertificate => tls::remove_certificate(context),
        Step::ApplyNetworkPolicy => {
            let desired = || Ok(render::network_policy(node, platform));
            objects::apply(context, observed.network_policy.as_deref(), desired, Object::NetworkPolicy)
        }
        Step::ApplyProxyConfig => {
            let desired = || Ok(render::proxy_config(node));
            objects::apply(context, observed.proxy_config.as_deref(), desired, Object::ConfigMap)
        }
        Step::ApplyDisruptionBudget => {
            let desired = || Ok(render::disruption_budget(node));
            objects::apply(context, observed.disruption_budget.as_deref(), desired, Object::DisruptionBudget)
        }
        Step::ApplyStatefulSet => {
            let desired = || render::stateful_set(node, platform);
            objects::apply(context, observed.stateful_set.as_deref(), desired, Object::StatefulSet)
        }
        Step::ApplyService => {
            let desired = || Ok(render::service(node));
            objects::apply(context, observed.service.as_deref(), desired, Object::Service)
        }
        Step::ReplacePod => pod::replace(context),
        Step::ObserveImage => pod::observe(context),
        Step::ObserveTls => tls::observe(context),
        Step::DeployBootstrapService => {
            let desired = || Ok(render::bootstrap_service(node));
            objects::create(context, observed.service.as_deref(), desired, Object::Service)
        }
        Step::DeployBootstrapJob => bootstrap::deploy_job(context),
        Step::AwaitBootstrap => bootstrap::await_job(context),
        Step::TeardownBootstrap => bootstrap::teardown(context),
        Step::Sidecar(_) => sidecar::run_task(context, step, task, status),
    }
}
