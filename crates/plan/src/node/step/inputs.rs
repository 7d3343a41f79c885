//! Steps that validate what people and other systems provide: the data volume and the keys of a validator.

use api::names::object;
use api::sei_node::PlannedTask;

use super::{StepOutcome, objects};
use crate::node::action::Object;
use crate::node::check::{self, CheckResult, claim, keys, reference};
use crate::node::context::{NodeContext, is_terminating};
use crate::node::exclusive::ExclusiveObject;
use crate::node::retention;
use crate::node::stored_plan;
use crate::render;

/// Creates the claim of the data volume, takes over the one that a previous node with the same name has retained, or validates the
/// imported one.
pub(super) fn data_claim(context: NodeContext<'_>, task: &PlannedTask) -> StepOutcome {
    let NodeContext { node, platform, observed, .. } = context;
    let kind = "PersistentVolumeClaim";
    let in_use = |name: &str| check::exclusive(&ExclusiveObject::Claim(name.into()), observed);
    if let Some(name) = claim::imported(node) {
        let label = reference::check_claim(context, name);
        return outcome(label.and_then(|| in_use(name)).and_then(|| claim::check(context, name)), kind, name);
    }
    let name = object::data_claim(context.name());
    match observed.claim.as_deref().filter(|live| !is_terminating(*live)) {
        Some(live) if !retention::is_own(node, live) => StepOutcome::Failed(format!(
            "{kind} {name} is not owned by this SeiNode: import it with spec.dataVolume.import, or delete it"
        )),
        Some(live) if retention::is_left_behind(node, live) => match retention::mismatch(node, live) {
            Some(why) => StepOutcome::Failed(why),
            None => outcome(in_use(&name), kind, &name),
        },
        Some(_) => StepOutcome::DONE,
        None if observed.claim.is_none() && stored_plan::must_claim_exist(task) => {
            StepOutcome::Failed(claim::loss(context.node))
        }
        None => {
            let live = observed.claim.as_deref();
            objects::create(context, live, || render::data_claim(node, platform), Object::Claim)
        }
    }
}

pub(super) fn signing_key(context: NodeContext<'_>) -> StepOutcome {
    let name = context.kind.key_secrets().signing_key.unwrap_or_default();
    let label = reference::check_secret(context, &name);
    let in_use = || check::exclusive(&ExclusiveObject::SigningKey(name.clone()), context.observed);
    let found = label.and_then(in_use).and_then(|| keys::signing_key(&name, context.observed));
    outcome(found, "Secret", &name)
}

pub(super) fn node_key(context: NodeContext<'_>) -> StepOutcome {
    let name = context.kind.key_secrets().node_key.unwrap_or_default();
    let label = reference::check_secret(context, &name);
    outcome(label.and_then(|| keys::node_key(&name, context.observed)), "Secret", &name)
}

pub(super) fn operator_keyring(context: NodeContext<'_>) -> StepOutcome {
    let keyring = context.kind.key_secrets().operator_keyring.unwrap_or_default();
    let (ring, phrase) = (&keyring.secret_name, &keyring.passphrase_secret_ref.secret_name);
    let labels = reference::check_secret(context, ring).and_then(|| reference::check_secret(context, phrase));
    outcome(labels.and_then(|| keys::operator_keyring(&keyring, context.observed)), "Secret", ring)
}

fn outcome(result: CheckResult, kind: &'static str, name: &str) -> StepOutcome {
    match result {
        CheckResult::Valid => StepOutcome::DONE,
        CheckResult::Pending(why) => StepOutcome::wait_for_input(kind, name, why),
        CheckResult::InUse(why) => StepOutcome::wait_for_other_node(kind, name, why),
        CheckResult::Invalid(why) => StepOutcome::Fatal(why),
    }
}
