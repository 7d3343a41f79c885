//! Verification of sidecar certificates.

use api::sei_node::Scheme;
use plan::node::{Health, SecretObservation, ServingObservation};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use testbed::cluster::pki::{CertificateAuthority, Identity};
use testbed::{Context, TestResult};

use crate::server::{Caller, Server, answer, issue, node, reply, secret, transport};

const SECRET: &str = "a-sidecar-tls";

fn sha256(identity: &Identity) -> String {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("valid PEM");
    Sha256::digest(&certificate).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serving(identity: &Identity) -> ServingObservation {
    ServingObservation::Serving(Scheme::Https, Some(sha256(identity)))
}

fn mismatch(reason: &str) -> ServingObservation {
    ServingObservation::Mismatch(reason.into())
}

const UNTRUSTED: &str = "the sidecar's certificate does not match Secret a-sidecar-tls";

pub async fn only_certificate_of_secret_is_accepted(_: Context) -> TestResult {
    let ca = CertificateAuthority::new("one")?;
    let ours = issue(&ca, "a")?;
    let server = Server::start(Some(ours.clone())).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(Some(SECRET)));
    let trusted = secret(&ours, None);
    assert_eq!(
        answer(async || caller.sidecars.probe_health(&node, &to, Some(&trusted)).await).await,
        Health::Ready
    );
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&trusted)).await).await,
        serving(&ours)
    );
    let before = server.requests().len();

    // Issued by another CA; by the same CA, which the Secret does not contain; by the same CA for another node.
    let other_ca = CertificateAuthority::new("another")?;
    for other in [issue(&other_ca, "a")?, issue(&ca, "a")?, issue(&ca, "b")?] {
        server.set_identity(Some(other));
        server.close_connections().await;
        let refused = Health::Unreachable(UNTRUSTED.into());
        assert_eq!(
            answer(async || caller.sidecars.probe_health(&node, &to, Some(&trusted)).await).await,
            refused
        );
        assert_eq!(
            answer(async || caller.sidecars.probe_serving(&node, &to, Some(&trusted)).await).await,
            mismatch(UNTRUSTED)
        );
    }
    // With the CA in the Secret, certificates of another CA or for another node are still rejected.
    let trusted = secret(&ours, Some(&ca));
    for other in [issue(&other_ca, "a")?, issue(&ca, "b")?] {
        server.set_identity(Some(other));
        assert_eq!(
            answer(async || caller.sidecars.probe_serving(&node, &to, Some(&trusted)).await).await,
            mismatch(UNTRUSTED)
        );
    }
    // Without a certificate in the Secret, nothing is trusted.
    for unknown in [None, Some(SecretObservation::Missing), Some(SecretObservation::Unreadable("403".into()))]
    {
        let probed = answer(async || caller.sidecars.probe_serving(&node, &to, unknown.as_ref()).await).await;
        assert_eq!(
            probed,
            mismatch("cannot verify the sidecar: Secret a-sidecar-tls has no valid certificate")
        );
    }
    assert_eq!(server.requests().len(), before, "the token was sent to none of them");
    let secret = runtime::Key { namespace: node.namespace, name: SECRET.into() };
    let mismatches = caller.mismatches();
    assert!(mismatches.len() >= 8 && mismatches.iter().all(|key| *key == secret), "{mismatches:?}");
    Ok(())
}

pub async fn ca_issued_renewal_is_accepted_during_rollout(_: Context) -> TestResult {
    let ca = CertificateAuthority::new("one")?;
    let (old, renewed) = (issue(&ca, "a")?, issue(&ca, "a")?);
    let server = Server::start(Some(old.clone())).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(Some(SECRET)));
    // The Secret already has the new certificate, the pod still serves the old one.
    let trusted = secret(&renewed, Some(&ca));
    assert_eq!(
        answer(async || caller.sidecars.probe_health(&node, &to, Some(&trusted)).await).await,
        Health::Ready
    );
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&trusted)).await).await,
        serving(&old)
    );
    server.set_identity(Some(renewed.clone()));
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&trusted)).await).await,
        serving(&renewed),
        "over a new connection"
    );
    // The reverse: the pod serves the new certificate before the operator observes the Secret.
    let trusted = secret(&old, Some(&ca));
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&trusted)).await).await,
        serving(&renewed)
    );
    Ok(())
}

pub async fn previous_certificate_is_accepted_until_renewal_is_served(_: Context) -> TestResult {
    // Without a CA in the Secret, only the certificates themselves are known.
    let ca = CertificateAuthority::new("one")?;
    let (old, renewed) = (issue(&ca, "a")?, issue(&ca, "a")?);
    let server = Server::start(Some(old.clone())).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(Some(SECRET)));
    let (before, after) = (secret(&old, None), secret(&renewed, None));
    assert_eq!(
        answer(async || caller.sidecars.probe_health(&node, &to, Some(&before)).await).await,
        Health::Ready
    );
    // The Secret is renewed, or deleted and created again; the pod still serves the old certificate.
    let missing =
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&SecretObservation::Missing)).await)
            .await;
    assert!(matches!(missing, ServingObservation::Mismatch(_)), "{missing:?}");
    for _ in 0..2 {
        assert_eq!(
            answer(async || caller.sidecars.probe_health(&node, &to, Some(&after)).await).await,
            Health::Ready
        );
        assert_eq!(
            answer(async || caller.sidecars.probe_serving(&node, &to, Some(&after)).await).await,
            serving(&old)
        );
    }
    // A third certificate is rejected.
    server.set_identity(Some(issue(&ca, "a")?));
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&after)).await).await,
        mismatch(UNTRUSTED)
    );
    server.set_identity(Some(renewed.clone()));
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&after)).await).await,
        serving(&renewed)
    );
    // From then on the old certificate is rejected.
    let sent = server.requests().len();
    server.set_identity(Some(old));
    server.close_connections().await;
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &to, Some(&after)).await).await,
        mismatch(UNTRUSTED)
    );
    let refused = Health::Unreachable(UNTRUSTED.into());
    assert_eq!(answer(async || caller.sidecars.probe_health(&node, &to, Some(&after)).await).await, refused);
    // A client that never observed the old certificate in the Secret rejects it, too.
    let newcomer = Caller::new(&server);
    assert_eq!(
        answer(async || newcomer.sidecars.probe_health(&node, &to, Some(&after)).await).await,
        refused
    );
    assert_eq!(server.requests().len(), sent, "the token was sent to none of them");
    Ok(())
}

pub async fn serving_probe_detects_scheme_and_certificate(_: Context) -> TestResult {
    let ca = CertificateAuthority::new("one")?;
    let ours = issue(&ca, "a")?;
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let node = node();
    let (plain, tls) = (transport(None), transport(Some(SECRET)));
    let trusted = secret(&ours, Some(&ca));
    server.respond_with(|_| reply(503, ""));
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &plain, None).await).await,
        ServingObservation::Serving(Scheme::Http, None)
    );
    let probed = answer(async || caller.sidecars.probe_serving(&node, &tls, Some(&trusted)).await).await;
    assert_eq!(probed, mismatch("TLS handshake with the sidecar failed"));

    server.set_identity(Some(ours.clone()));
    assert_eq!(
        answer(async || caller.sidecars.probe_serving(&node, &tls, Some(&trusted)).await).await,
        serving(&ours)
    );
    let probed = answer(async || caller.sidecars.probe_serving(&node, &plain, None).await).await;
    assert!(matches!(probed, ServingObservation::Mismatch(_)), "{probed:?}");

    // The response of a Go TLS server to a plain HTTP request.
    server.set_identity(None);
    server.respond_with(|_| reply(400, "Client sent an HTTP request to an HTTPS server.\n"));
    let probed = answer(async || caller.sidecars.probe_serving(&node, &plain, None).await).await;
    assert_eq!(probed, mismatch("the sidecar does not serve plain HTTP"));
    Ok(())
}
