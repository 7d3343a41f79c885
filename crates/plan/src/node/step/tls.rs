//! Steps about the certificate of the sidecar API.

use api::condition::SidecarTLSSecretReady;
use api::names::object;
use api::sei_node::{PlanKind, Scheme, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{StepOutcome, objects};
use crate::node::action::Deletion;
use crate::node::check::{CheckResult, reference, tls_secret};
use crate::node::context::{NodeContext, is_controlled_by, is_terminating, name_of};
use crate::node::issued_secret;
use crate::node::observed::ServingObservation;
use crate::node::status_change::StatusChange;
use crate::node::tls::desired_tls;

/// Waits for the Secret with the certificate. A healthy pod must not be replaced by one that serves an expired certificate.
pub(super) fn wait_for_secret(context: NodeContext<'_>, status: &SeiNodeStatus, now: &Time) -> StepOutcome {
    use SidecarTLSSecretReady::{
        CertificateNotReady, TLSNotRequested, TLSSecretExpired, TLSSecretNotYetValid, TLSSecretReady,
    };
    let desired = desired_tls(context.node);
    let found = tls_secret::check(context.node, &desired, context.observed, now);
    let failure = tls_secret::issuance_failure(&desired, context.observed);
    let name = desired.secret_name.unwrap_or_default();
    if desired.issuer.is_none()
        && let CheckResult::Invalid(why) = reference::check_secret(context, &name)
    {
        return StepOutcome::Fatal(why);
    }
    let is_rollback = status.plan.as_ref().is_some_and(|plan| plan.kind == Some(PlanKind::Rollback));
    match (found.reason, failure) {
        (TLSNotRequested | TLSSecretReady, _) => StepOutcome::DONE,
        // The previous configuration had the same certificate, and seid does not run until the rollback is complete.
        (TLSSecretExpired | TLSSecretNotYetValid, _) if is_rollback => StepOutcome::DONE,
        // Waiting for a failed issuer is useless. The plan fails, a running node keeps running, an edit is picked up at once, and
        // the plan is retried with backoff in case the issuer recovers.
        (_, Some(failure)) => StepOutcome::Failed(failure),
        (CertificateNotReady, _) => StepOutcome::wait("Certificate", name, found.message),
        _ => StepOutcome::wait_for_input("Secret", name, found.message),
    }
}

/// Deletes the Certificate. Garbage collection deletes the Secret with it.
pub(super) fn remove_certificate(context: NodeContext<'_>) -> StepOutcome {
    match context.observed.certificate.as_deref() {
        Some(live) if is_controlled_by(context.node, live) => {
            if is_terminating(live) {
                return StepOutcome::wait("Certificate", name_of(live), "it is being deleted");
            }
            if let Some(obstacle) = issued_secret::obstacle(context) {
                return StepOutcome::wait_for_input("Secret", name_of(live), obstacle);
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
            StepOutcome::Done(Some(StatusChange::tls(context, desired.as_observed())))
        }
    }
}
