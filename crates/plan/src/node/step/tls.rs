//! Steps about the certificate of the sidecar API.

use api::condition::SidecarTLSSecretReady;
use api::names::object;
use api::sei_node::Scheme;

use super::{StepOutcome, objects};
use crate::node::action::Deletion;
use crate::node::check::tls_secret;
use crate::node::context::{NodeContext, is_controlled_by, is_terminating, name_of};
use crate::node::observed::ServingObservation;
use crate::node::status_change::StatusChange;
use crate::node::tls::desired_tls;

/// Waits for the Secret with the certificate.
pub(super) fn wait_for_secret(context: NodeContext<'_>) -> StepOutcome {
    let desired = desired_tls(context.node);
    let found = tls_secret::check(context.node, &desired, context.observed);
    let name = desired.secret_name.unwrap_or_default();
    match found.reason {
        SidecarTLSSecretReady::TLSNotRequested | SidecarTLSSecretReady::TLSSecretReady => StepOutcome::DONE,
        // Waiting for a failed issuer is useless. The plan fails, a running node keeps running, an edit is picked up at once, and
        // the plan is retried with backoff in case the issuer recovers.
        SidecarTLSSecretReady::CertificateFailed => StepOutcome::Failed(found.message),
        SidecarTLSSecretReady::CertificateNotReady => StepOutcome::wait("Certificate", name, found.message),
        _ => StepOutcome::wait("Secret", name, found.message),
    }
}

/// Deletes the Certificate.
pub(super) fn remove_certificate(context: NodeContext<'_>) -> StepOutcome {
    match context.observed.certificate.as_deref() {
        Some(live) if is_controlled_by(context.node, live) => {
            if is_terminating(live) {
                return StepOutcome::wait("Certificate", name_of(live), "it is being deleted");
            }
            objects::delete(context, Deletion::Certificate(Box::new(live.clone())))
        }
        _ => StepOutcome::DONE,
    }
}

/// Observes how the new pod serves the sidecar API, and records it. It does not wait until the pod is ready: that needs
/// mark-ready, which comes later.
pub(super) fn observe(context: NodeContext<'_>) -> StepOutcome {
    let desired = desired_tls(context.node);
    let Some(transport) = context.transport(desired.scheme, desired.secret_name.as_deref()) else {
        return StepOutcome::wait("Pod", object::pod(context.name()), "it does not exist yet");
    };
    let poll = |message: Option<String>| StepOutcome::poll("Sidecar", &transport.host, message);
    match &context.observed.sidecar.serving {
        ServingObservation::Unknown => poll(None),
        ServingObservation::Mismatch(why) => poll(Some(why.clone())),
        ServingObservation::Serving(scheme, _) if *scheme != desired.scheme => {
            let scheme = match desired.scheme {
                Scheme::Http => "HTTP",
                Scheme::Https => "HTTPS",
            };
            poll(Some(format!("its API is not served over {scheme} yet")))
        }
        ServingObservation::Serving(_, served) => {
            let secret = desired.secret_name.as_deref().and_then(|name| context.observed.secrets.get(name));
            let expected = tls_secret::fingerprint(secret);
            if served.is_some() && expected.is_some() && *served != expected {
                return poll(Some("it still serves the previous certificate".into()));
            }
            StepOutcome::Done(Some(StatusChange::Tls(desired.as_observed())))
        }
    }
}
