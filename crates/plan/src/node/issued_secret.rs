//! Who deletes the Secret that cert-manager issued for a node. Without an owner it would stay, with its private key, when its
//! Certificate is deleted. With the Certificate as its owner, garbage collection deletes it with the Certificate, and both with the node,
//! also while no operator runs.

use api::SeiNode;
use api::cert_manager::{CERTIFICATE_NAME_ANNOTATION, Certificate};
use api::names::object;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::{Resource, ResourceExt};

use super::action::{Action, SecretOwnership};
use super::context::{NodeContext, is_controlled_by, is_terminating, kind_of, name_of};
use super::observed::{Observed, SecretObservation};
use super::tls::desired_tls;

/// Returns the action that makes the issued Secret follow its Certificate. It touches neither the pod nor the content of the Secret.
/// `stored` is the node as the user wants it, also if it was put back to its previous spec.
pub(super) fn action(context: NodeContext<'_>, stored: &SeiNode) -> Option<Action> {
    let NodeContext { node, observed, .. } = context;
    let (certificate, secret) = issued(node, observed)?;
    let reference = owner_of(certificate, secret);
    let is_named_by_user = is_named_by_user(stored) || is_named_by_user(node);
    // cert-manager sets itself a reference with a controller, if it is started with --enable-certificate-owner-ref.
    let is_foreign = reference.is_some_and(|owner| owner.controller == Some(true));
    // A condition reports a failed write, and the next reconcile retries: nothing changes within this one.
    let is_refused = observed.write_failures.contains_key(kind_of::<Secret>());
    if is_refused || is_foreign || reference.is_some() != is_named_by_user {
        return None;
    }
    let uid = certificate.uid().unwrap_or_default();
    let mut owner_references: Vec<OwnerReference> = secret.owner_references().to_vec();
    owner_references.retain(|owner| owner.uid != uid);
    if !is_named_by_user {
        owner_references.push(OwnerReference {
            api_version: Certificate::api_version(&()).into_owned(),
            kind: kind_of::<Certificate>().to_owned(),
            name: name_of(certificate).to_owned(),
            uid,
            ..OwnerReference::default()
        });
    }
    Some(Action::SetSecretOwnership(Box::new(SecretOwnership { secret: secret.clone(), owner_references })))
}

/// Returns why the Certificate of a node must not be deleted yet: its Secret would stay, or a Secret that the user has named would be
/// deleted with it.
pub(super) fn obstacle(context: NodeContext<'_>) -> Option<String> {
    let NodeContext { node, observed, .. } = context;
    let name = object::sidecar_tls(context.name());
    match observed.secrets.get(&name) {
        Some(SecretObservation::Found(_) | SecretObservation::Missing) => {}
        Some(SecretObservation::Unreadable(why)) => {
            return Some(format!("Secret {name} cannot be read: {why}"));
        }
        // It is read before the next decision.
        None => return Some(format!("Secret {name} was not read yet")),
    }
    let (certificate, secret) = issued(node, observed)?;
    let is_owned = owner_of(certificate, secret).is_some();
    let failure = observed.write_failures.get(kind_of::<Secret>()).map(|failure| failure.message());
    match (is_owned, is_named_by_user(node), failure) {
        (true, false, _) | (false, true, _) => None,
        (_, _, Some(why)) => Some(format!("the owner of Secret {name} cannot be changed: {why}")),
        (false, false, None) => Some(format!("Secret {name} does not have the Certificate as its owner yet")),
        (true, true, None) => Some(format!(
            "Secret {name} is owned by the Certificate and would be deleted with it: copy it to a Secret of another name, and set that \
             in spec.sidecar.tls.secretName"
        )),
    }
}

/// Returns the Certificate that a node controls, and the Secret that cert-manager issued for it.
fn issued<'a>(node: &SeiNode, observed: &'a Observed) -> Option<(&'a Certificate, &'a Secret)> {
    let certificate = observed.certificate.as_deref()?;
    let Some(SecretObservation::Found(found)) = observed.secrets.get(&certificate.spec.secret_name) else {
        return None;
    };
    let issued_for = found.secret.annotations().get(CERTIFICATE_NAME_ANNOTATION).map(String::as_str);
    let is_issued = is_controlled_by(node, certificate) && issued_for == Some(name_of(certificate));
    let is_stable = !is_terminating(certificate) && !is_terminating(&found.secret);
    (is_issued && is_stable).then_some((certificate, &found.secret))
}

fn owner_of<'a>(certificate: &Certificate, secret: &'a Secret) -> Option<&'a OwnerReference> {
    let uid = certificate.metadata.uid.as_deref();
    secret.owner_references().iter().find(|owner| Some(owner.uid.as_str()) == uid)
}

/// Returns whether the spec names the Secret that cert-manager issues for the node: it is the user's then.
fn is_named_by_user(node: &SeiNode) -> bool {
    let desired = desired_tls(node);
    desired.issuer.is_none() && desired.secret_name == Some(object::sidecar_tls(name_of(node)))
}
