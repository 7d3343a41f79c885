//! What the operator must query before a decision, beyond what it watches.

use std::collections::BTreeSet;

use api::SeiNode;
use api::condition::{self, SidecarTLSSecretReady};
use api::names::object;
use api::sei_node::{Scheme, SeiNodePhase, SeiNodeStatus};
use api::sidecar_wire::TaskRequest;

use super::action::Transport;
use super::applied_spec;
use super::check::{claim, reference};
use super::context::{NodeContext, name_of};
use super::decide::{may_start_plan, requires_update_slot};
use super::exclusive::ExclusiveObject;
use super::observed::Observed;
use super::retention;
use super::step::{config_dry_run, sidecar_transport};
use super::stored_plan;
use super::task::Step;
use super::tls::desired_tls;
use crate::platform::Platform;

/// What the operator must query before a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredObservations {
    /// Query the health of the sidecar.
    pub health: Option<Transport>,
    /// Query the sidecar task with this id.
    pub task: Option<(Transport, String)>,
    /// Ask the sidecar whether this task would succeed.
    pub dry_run: Option<(Transport, TaskRequest)>,
    /// Check whether the sidecar API is served this way.
    pub serving: Option<Transport>,
    /// Query the state of the chain, if the sidecar lets seid run.
    pub chain: Option<Transport>,
    /// Read these Secrets in the namespace of the node.
    pub secrets: BTreeSet<String>,
    /// Those of them that the node waits for, or that a step validates now: an old copy does not do.
    pub awaited_secrets: BTreeSet<String>,
    /// Read the volume of this claim.
    pub volume_of_claim: Option<String>,
    /// Ask whether the node may be updated for something other than its own edits.
    pub update_slot: bool,
    /// Find out which other node uses this object.
    pub exclusive: Option<ExclusiveObject>,
}

/// Returns what must be queried before the next decision about a node. `status` is the newest one, stored or not.
#[must_use]
pub fn required_observations(
    node: &SeiNode,
    status: &SeiNodeStatus,
    platform: &Platform,
    observed: &Observed,
) -> RequiredObservations {
    let mut required = RequiredObservations::default();
    let rolled_back = applied_spec::rolled_back(node, status, observed);
    let (node, observed) = rolled_back.as_ref().map_or((node, observed), |(node, observed)| (node, observed));
    let context = NodeContext::new(node, platform, observed);
    let Some(context) = context.filter(|_| node.metadata.deletion_timestamp.is_none()) else {
        return required;
    };
    let desired = desired_tls(node);
    if desired.scheme == Scheme::Https {
        required.secrets.extend(desired.secret_name.clone());
        if !condition::is_true::<SidecarTLSSecretReady>(&status.conditions) {
            required.awaited_secrets.extend(desired.secret_name.clone());
        }
    }
    // The served certificate may differ from the desired one.
    required.secrets.extend(status.current_sidecar_tls.as_ref().and_then(|tls| tls.secret_name.clone()));
    if let Some((step, task)) = stored_plan::active(status).and_then(stored_plan::current) {
        match step {
            Step::DryRunConfig => required.dry_run = config_dry_run(context, status),
            Step::ObserveTls => {
                required.serving = context.transport(desired.scheme, desired.secret_name.as_deref());
            }
            Step::WaitForTlsSecret => required.awaited_secrets.extend(desired.secret_name.clone()),
            Step::Sidecar(_) => {
                let transport = sidecar_transport(context, task, status);
                required.secrets.extend(transport.as_ref().and_then(|transport| transport.secret.clone()));
                required.task = transport.map(|transport| (transport, task.id.clone()));
            }
            step => add_inputs(context, step, &mut required),
        }
    }
    // A failed setup is retried once the input that it timed out on is valid.
    if status.phase == Some(SeiNodePhase::Failed)
        && let Some((step, _)) = status.plan.as_ref().and_then(stored_plan::failed)
    {
        add_inputs(context, step, &mut required);
    }
    if status.phase == Some(SeiNodePhase::Running) && required.serving.is_none() {
        required.health = context.observed_transport(status);
        required.chain = required.health.clone();
    }
    if platform.strict_references && may_start_plan(context, status) {
        // A label that is set now must be noticed soon.
        required.awaited_secrets.extend(reference::secrets(node));
        required.secrets.extend(reference::secrets(node));
    }
    required.update_slot = requires_update_slot(context, status);
    required
}

/// Adds the inputs that a step validates.
fn add_inputs(context: NodeContext<'_>, step: Step, required: &mut RequiredObservations) {
    let keys = context.kind.key_secrets();
    let mut secrets = Vec::new();
    match step {
        Step::ValidateSigningKey => {
            required.exclusive = keys.signing_key.clone().map(ExclusiveObject::SigningKey);
            secrets.extend(keys.signing_key);
        }
        Step::ValidateNodeKey => secrets.extend(keys.node_key),
        Step::ValidateOperatorKeyring => {
            if let Some(keyring) = keys.operator_keyring {
                secrets.extend([keyring.secret_name, keyring.passphrase_secret_ref.secret_name]);
            }
        }
        // The Secret of the Certificate goes with it.
        Step::RemoveCertificate => secrets.push(object::sidecar_tls(context.name())),
        Step::EnsureDataClaim => {
            required.volume_of_claim = claim::imported(context.node).map(str::to_owned);
            required.exclusive = exclusive_claim(context);
        }
        _ => {}
    }
    required.awaited_secrets.extend(secrets.iter().cloned());
    required.secrets.extend(secrets);
}

/// Returns the claim that another node might use: an imported one, or one that was retained. A claim that was created for this node is
/// used by no other.
fn exclusive_claim(context: NodeContext<'_>) -> Option<ExclusiveObject> {
    let NodeContext { node, observed, .. } = context;
    let live = observed.claim.as_deref();
    let left_behind = live.filter(|live| retention::is_left_behind(node, live)).map(name_of);
    claim::imported(node).or(left_behind).map(|name| ExclusiveObject::Claim(name.to_owned()))
}
