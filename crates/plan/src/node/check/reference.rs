//! Strict references: the Secrets and the claim that a node uses must be labeled with its name, so that permission to create nodes
//! gives no access to the Secrets and claims of others. A Secret that cert-manager issues for the node's own Certificate, and the
//! credentials of the object store, which the platform names, need no label.

use api::SeiNode;
use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{CheckResult, claim};
use crate::node::context::NodeContext;
use crate::node::kind::NodeKind;
use crate::node::observed::SecretObservation;
use crate::node::tls::desired_tls;

/// Returns the Secrets that a spec names.
pub(in crate::node) fn secrets(node: &SeiNode) -> impl Iterator<Item = String> {
    let keys = NodeKind::from_spec(&node.spec).map(NodeKind::key_secrets).unwrap_or_default();
    let keyring = keys.operator_keyring;
    let phrase = keyring.as_ref().map(|keyring| keyring.passphrase_secret_ref.secret_name.clone());
    let tls = desired_tls(node);
    let certificate = tls.secret_name.filter(|_| tls.issuer.is_none());
    let keyring = keyring.map(|keyring| keyring.secret_name);
    let all = [keys.signing_key, keys.node_key, keyring, phrase, certificate];
    all.into_iter().flatten().filter(|name| !name.is_empty())
}

/// Returns why references of a node are refused. A new node may name Secrets that do not exist yet: its plan waits for them, and
/// checks them again. A pod that is replaced would not wait.
pub(in crate::node) fn problems(context: NodeContext<'_>, is_setup: bool) -> Vec<String> {
    if !context.platform.strict_references {
        return Vec::new();
    }
    let secret = |name: String| match context.observed.secrets.get(&name) {
        Some(SecretObservation::Found(_)) => refusal(check_secret(context, &name)),
        _ if is_setup => None,
        Some(SecretObservation::Unreadable(why)) => Some(format!(
            "Secret {name} cannot be read, and --strict-references requires its label {}: {why}",
            required_label(context)
        )),
        Some(SecretObservation::Missing) | None => Some(format!(
            "Secret {name} not found, and --strict-references requires its label {}: create it",
            required_label(context)
        )),
    };
    let imported = claim::imported(context.node).and_then(|name| refusal(check_claim(context, name)));
    secrets(context.node).filter_map(secret).chain(imported).collect()
}

/// Checks the label of a Secret, if it was found.
pub(in crate::node) fn check_secret(context: NodeContext<'_>, name: &str) -> CheckResult {
    match context.observed.secrets.get(name) {
        Some(SecretObservation::Found(found)) => check(context, "Secret", name, &found.secret.metadata),
        _ => CheckResult::Valid,
    }
}

/// Checks the label of an imported claim, if it was found.
pub(in crate::node) fn check_claim(context: NodeContext<'_>, name: &str) -> CheckResult {
    let live = context.observed.claim.as_deref();
    live.map_or(CheckResult::Valid, |live| check(context, "PersistentVolumeClaim", name, &live.metadata))
}

fn check(context: NodeContext<'_>, kind: &str, name: &str, meta: &ObjectMeta) -> CheckResult {
    let owner = meta.labels.as_ref().and_then(|labels| labels.get(label::NODE)).map(String::as_str);
    if !context.platform.strict_references || owner == Some(context.name()) {
        return CheckResult::Valid;
    }
    CheckResult::Invalid(format!(
        "{kind} {name} is not labeled {}, which --strict-references requires: label it, or use another one",
        required_label(context)
    ))
}

fn required_label(context: NodeContext<'_>) -> String {
    format!("{}={}", label::NODE, context.name())
}

fn refusal(result: CheckResult) -> Option<String> {
    match result {
        CheckResult::Invalid(why) => Some(why),
        _ => None,
    }
}
