//! Steps that validate what people and other systems provide: the data volume and the keys of a validator.

use api::names::object;

use super::{StepOutcome, objects};
use crate::node::action::Object;
use crate::node::check::{CheckResult, claim, keys};
use crate::node::context::{NodeContext, is_controlled_by, is_terminating};
use crate::render;

/// Creates the claim of the data volume, or validates the imported one.
pub(super) fn data_claim(context: NodeContext<'_>) -> StepOutcome {
    let NodeContext { node, platform, observed, .. } = context;
    if let Some(name) = claim::imported(node) {
        return outcome(claim::check(context, name), "PersistentVolumeClaim", name);
    }
    match observed.claim.as_deref() {
        Some(live) if !is_controlled_by(node, live) && !is_terminating(live) => {
            let name = object::data_claim(context.name());
            StepOutcome::Failed(format!(
                "PersistentVolumeClaim {name} is not owned by this SeiNode: import it with spec.dataVolume.import, or delete it"
            ))
        }
        live => objects::create(context, live, || render::data_claim(node, platform), Object::Claim),
    }
}

pub(super) fn signing_key(context: NodeContext<'_>) -> StepOutcome {
    let name = context.kind.key_secrets().signing_key.unwrap_or_default();
    outcome(keys::signing_key(&name, context.observed), "Secret", &name)
}

pub(super) fn node_key(context: NodeContext<'_>) -> StepOutcome {
    let name = context.kind.key_secrets().node_key.unwrap_or_default();
    outcome(keys::node_key(&name, context.observed), "Secret", &name)
}

pub(super) fn operator_keyring(context: NodeContext<'_>) -> StepOutcome {
    let keyring = context.kind.key_secrets().operator_keyring.unwrap_or_default();
    outcome(keys::operator_keyring(&keyring, context.observed), "Secret", &keyring.secret_name)
}

fn outcome(result: CheckResult, kind: &'static str, name: &str) -> StepOutcome {
    match result {
        CheckResult::Valid => StepOutcome::DONE,
        CheckResult::Pending(why) => StepOutcome::wait(kind, name, why),
        CheckResult::Invalid(why) => StepOutcome::Fatal(why),
    }
}
