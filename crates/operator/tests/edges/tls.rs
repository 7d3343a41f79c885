//! Which certificates are accepted, and what is seen of them.

use api::sei_node::Scheme;
use plan::node::{Health, SecretSight, Served};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use testbed::cluster::pki::{Authority, Identity};
use testbed::{Context, TestResult};

use crate::server::{Asker, Server, issue, node, reply, secret, transport};

const SECRET: &str = "a-sidecar-tls";

fn sha256(identity: &Identity) -> String {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("it is PEM");
    Sha256::digest(&certificate).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn by(identity: &Identity) -> Served {
    Served::As(Scheme::Https, Some(sha256(identity)))
}

fn otherwise(why: &str) -> Served {
    Served::Otherwise(why.into())
}

const ANOTHER: &str = "it serves another certificate than that of Secret a-sidecar-tls";

pub async fn only_the_certificate_of_the_secret_is_accepted(_: Context) -> TestResult {
    let authority = Authority::new("one")?;
    let ours = issue(&authority, "a")?;
    let server = Server::start(Some(ours.clone())).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(Some(SECRET)));
    let known = secret(&ours, None);
    assert_eq!(asker.sidecars.health(&node, &to, Some(&known)).await, Health::Ready);
    assert_eq!(asker.sidecars.served(&node, &to, Some(&known)).await, by(&ours));
    let before = server.seen().len();

    // Another authority's; the same authority's, which the Secret does not name; one's own for somebody else.
    let stranger = Authority::new("another")?;
    for other in [issue(&stranger, "a")?, issue(&authority, "a")?, issue(&authority, "b")?] {
        server.serves(Some(other));
        server.cut_connections().await;
        let refused = Health::Unreachable(ANOTHER.into());
        assert_eq!(asker.sidecars.health(&node, &to, Some(&known)).await, refused);
        assert_eq!(asker.sidecars.served(&node, &to, Some(&known)).await, otherwise(ANOTHER));
    }
    // With the authority in the Secret, those of others are refused all the same.
    let known = secret(&ours, Some(&authority));
    for other in [issue(&stranger, "a")?, issue(&authority, "b")?] {
        server.serves(Some(other));
        assert_eq!(asker.sidecars.served(&node, &to, Some(&known)).await, otherwise(ANOTHER));
    }
    // Without a certificate to compare with, nothing is trusted.
    for unknown in [None, Some(SecretSight::Missing), Some(SecretSight::Unreadable("403".into()))] {
        let served = asker.sidecars.served(&node, &to, unknown.as_ref()).await;
        assert_eq!(served, otherwise("Secret a-sidecar-tls has no certificate to know it by"));
    }
    assert_eq!(server.seen().len(), before, "none of them was shown the token");
    Ok(())
}

pub async fn a_renewed_certificate_is_accepted_while_it_is_on_its_way(_: Context) -> TestResult {
    let authority = Authority::new("one")?;
    let (old, renewed) = (issue(&authority, "a")?, issue(&authority, "a")?);
    let server = Server::start(Some(old.clone())).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(Some(SECRET)));
    // The Secret has the new one already, the pod still the old one.
    let known = secret(&renewed, Some(&authority));
    assert_eq!(asker.sidecars.health(&node, &to, Some(&known)).await, Health::Ready);
    assert_eq!(asker.sidecars.served(&node, &to, Some(&known)).await, by(&old));
    server.serves(Some(renewed.clone()));
    assert_eq!(asker.sidecars.served(&node, &to, Some(&known)).await, by(&renewed), "over a new connection");
    // And the other way round: the pod was faster than our view of the Secret.
    let known = secret(&old, Some(&authority));
    assert_eq!(asker.sidecars.served(&node, &to, Some(&known)).await, by(&renewed));
    Ok(())
}

pub async fn a_certificate_without_authority_is_accepted_until_the_next_is_served(_: Context) -> TestResult {
    // The Secret does not name the authority: only the certificates themselves are known.
    let authority = Authority::new("one")?;
    let (old, renewed) = (issue(&authority, "a")?, issue(&authority, "a")?);
    let server = Server::start(Some(old.clone())).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(Some(SECRET)));
    let (before, after) = (secret(&old, None), secret(&renewed, None));
    assert_eq!(asker.sidecars.health(&node, &to, Some(&before)).await, Health::Ready);
    // The Secret is renewed, or deleted and made again; the pod still has the old one.
    let missing = asker.sidecars.served(&node, &to, Some(&SecretSight::Missing)).await;
    assert!(matches!(missing, Served::Otherwise(_)), "{missing:?}");
    for _ in 0..2 {
        assert_eq!(asker.sidecars.health(&node, &to, Some(&after)).await, Health::Ready);
        assert_eq!(asker.sidecars.served(&node, &to, Some(&after)).await, by(&old));
    }
    // A third one is a stranger's all the same.
    server.serves(Some(issue(&authority, "a")?));
    assert_eq!(asker.sidecars.served(&node, &to, Some(&after)).await, otherwise(ANOTHER));
    server.serves(Some(renewed.clone()));
    assert_eq!(asker.sidecars.served(&node, &to, Some(&after)).await, by(&renewed));
    // From then on the old one is nobody's.
    let seen = server.seen().len();
    server.serves(Some(old));
    server.cut_connections().await;
    assert_eq!(asker.sidecars.served(&node, &to, Some(&after)).await, otherwise(ANOTHER));
    let refused = Health::Unreachable(ANOTHER.into());
    assert_eq!(asker.sidecars.health(&node, &to, Some(&after)).await, refused);
    // Nor is it known to who has never seen it in the Secret.
    let newcomer = Asker::of(&server);
    assert_eq!(newcomer.sidecars.health(&node, &to, Some(&after)).await, refused);
    assert_eq!(server.seen().len(), seen, "none of them was shown the token");
    Ok(())
}

pub async fn how_it_is_served_is_seen_and_not_assumed(_: Context) -> TestResult {
    let authority = Authority::new("one")?;
    let ours = issue(&authority, "a")?;
    let server = Server::start(None).await?;
    let asker = Asker::of(&server);
    let node = node();
    let (plain, tls) = (transport(None), transport(Some(SECRET)));
    let known = secret(&ours, Some(&authority));
    server.answers(|_| reply(503, ""));
    assert_eq!(asker.sidecars.served(&node, &plain, None).await, Served::As(Scheme::Http, None));
    let served = asker.sidecars.served(&node, &tls, Some(&known)).await;
    assert_eq!(served, otherwise("it does not serve by TLS"));

    server.serves(Some(ours.clone()));
    assert_eq!(asker.sidecars.served(&node, &tls, Some(&known)).await, by(&ours));
    let served = asker.sidecars.served(&node, &plain, None).await;
    assert!(matches!(served, Served::Otherwise(_)), "{served:?}");

    // What a Go server that waits for TLS says to a plain request.
    server.serves(None);
    server.answers(|_| reply(400, "Client sent an HTTP request to an HTTPS server.\n"));
    let served = asker.sidecars.served(&node, &plain, None).await;
    assert_eq!(served, otherwise("it does not serve in the clear"));
    Ok(())
}
