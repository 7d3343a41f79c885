//! The Secret that cert-manager issues is deleted with its Certificate, and a Secret of the user is never touched.

use api::SeiNode;
use api::cert_manager::Certificate;
use api::names::object;
use api::sei_node::Scheme;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use testbed::Error;
use testbed::cluster::control_plane::AuditedRequest;
use testbed::cluster::pki::{CertificateAuthority, ServerNames};
use testbed::harness::wait;

use crate::QUIET;
use crate::expiration;
use crate::fixture::{Fixture, Operator, TIMEOUT, is_ready, message};

/// A Secret of the user with a certificate for the node.
const OWN: &str = "own";

/// Waits until the issued Secret of a node has its Certificate as its owner. Returns the Secret.
pub async fn wait_owned(fixture: &Fixture<'_>, node: &str) -> Result<Secret, Error> {
    let name = format!("{node}-sidecar-tls");
    let certificate = fixture.api::<Certificate>().get(&name).await?.uid();
    let is_owned = |secret: &Secret| {
        secret.owner_references().iter().any(|owner| Some(&owner.uid) == certificate.as_ref())
    };
    fixture.wait_until_object(&name, "the Certificate is its owner", is_owned).await
}

/// Waits until a Secret is deleted. Nothing but garbage collection deletes it: the operator is not allowed to.
async fn wait_deleted(fixture: &Fixture<'_>, name: &str) -> Result<(), Error> {
    let secrets = fixture.api::<Secret>();
    wait::until(format!("Secret {name} is deleted"), TIMEOUT, || async {
        match secrets.get_opt(name).await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(secret) => Err(format!("{:?}", secret.owner_references())),
        }
    })
    .await
}

/// cert-manager and the operator write the same Secret: neither may undo what the other has written.
pub async fn secret_is_patched_once_and_costs_nothing_then(fixture: &Fixture<'_>) -> Result<(), Error> {
    let before = wait_owned(fixture, "node").await?.resource_version();
    let requests = || -> Result<Vec<String>, Error> {
        let about_secret =
            |request: &AuditedRequest| request.resource == "secrets" && !request.name.is_empty();
        Ok(fixture.requests()?.into_iter().filter(about_secret).map(|request| request.verb).collect())
    };
    let sent = requests()?;
    assert_eq!(sent.iter().filter(|verb| *verb == "patch").count(), 1, "{sent:?}");
    let secrets = fixture.api::<Secret>();
    wait::throughout("an unchanged Secret", QUIET, || async {
        let now = secrets.get("node-sidecar-tls").await.map_err(|error| error.to_string())?;
        if now.resource_version() == before { Ok(()) } else { Err(format!("{:?}", now.metadata)) }
    })
    .await?;
    assert_eq!(requests()?, sent, "no request for the Secret at steady state");
    Ok(())
}

/// Copies the certificate of the node into a Secret of the user. Returns the Secret as it is stored.
pub async fn create_own(fixture: &Fixture<'_>) -> Result<Secret, Error> {
    let issued = fixture.api::<Secret>().get("node-sidecar-tls").await?;
    let metadata = ObjectMeta { name: Some(OWN.into()), ..ObjectMeta::default() };
    let own = Secret { metadata, data: issued.data, type_: issued.type_, ..Secret::default() };
    Ok(fixture.api::<Secret>().create(&PostParams::default(), &own).await?)
}

/// Replaces the certificate in the Secret of the user. No event announces that, and the sidecar serves the new one at once: the operator
/// reads the Secret again before it reports the sidecar as unreachable.
async fn replaced_secret_keeps_the_node_ready(fixture: &Fixture<'_>, own: &Secret) -> Result<Secret, Error> {
    let dns = vec![object::service_host("node", &fixture.ns), object::pod_host("node", &fixture.ns)];
    let ca = CertificateAuthority::new("replaced")?;
    let identity = ca.issue_server("node", &ServerNames { dns, ..ServerNames::default() })?;
    let mut replaced = own.clone();
    replaced.metadata.resource_version = None;
    replaced.data = Some(
        [("tls.crt", identity.certificate), ("tls.key", identity.key)]
            .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
            .into(),
    );
    let reads = || -> Result<usize, Error> {
        let is_read = |request: &AuditedRequest| request.resource == "secrets" && request.name == OWN;
        Ok(fixture.requests()?.into_iter().filter(is_read).count())
    };
    let before = reads()?;
    let replaced = fixture.api::<Secret>().replace(OWN, &PostParams::default(), &replaced).await?;
    wait::until("the Secret to be read again", TIMEOUT, || async {
        let node = fixture.nodes().get("node").await.map_err(|error| error.to_string())?;
        let status = node.status.clone().unwrap_or_default();
        assert!(is_ready(&node, &status), "{}", message(&status, "SidecarReady"));
        match reads() {
            Ok(now) if now > before => Ok(()),
            now => Err(format!("{now:?}")),
        }
    })
    .await?;
    wait::throughout("a ready node", QUIET, || async {
        let node = fixture.nodes().get("node").await.map_err(|error| error.to_string())?;
        let status = node.status.clone().unwrap_or_default();
        if is_ready(&node, &status) { Ok(()) } else { Err(message(&status, "SidecarReady").to_owned()) }
    })
    .await?;
    Ok(replaced)
}

/// Runs on a node whose issuer was just disabled.
pub async fn issued_secret_is_deleted_and_own_secret_stays(
    fixture: &Fixture<'_>,
    operator: &Operator,
    own: &Secret,
) -> Result<(), Error> {
    wait_deleted(fixture, "node-sidecar-tls").await?;
    let deletions = fixture.pod_deletion_count()?;
    for (expected, tls) in [
        (Scheme::Https, json!({ "secretName": OWN })),
        (Scheme::Http, json!(null)),
        (Scheme::Https, json!({ "secretName": OWN })),
    ] {
        fixture.edit("node", json!({ "spec": { "sidecar": { "tls": tls } } })).await?;
        let node = fixture.wait_ready("node", "the user's Secret").await?;
        let tls = node.status.unwrap_or_default().current_sidecar_tls.expect("the observed TLS");
        assert_eq!(tls.scheme, expected);
    }
    assert_eq!(fixture.pod_deletion_count()?, deletions + 3);
    let own = &replaced_secret_keeps_the_node_ready(fixture, own).await?;
    let with_issuer = |node: &mut Value| {
        node["spec"]["sidecar"] = json!({ "tls": { "issuerName": "one", "issuerKind": "Issuer" } });
    };
    fixture.create_ready("issued", with_issuer).await?;
    wait_owned(fixture, "issued").await?;
    expiration::wait_exported(fixture, operator, "issued").await?;
    for node in ["node", "issued"] {
        fixture.api::<SeiNode>().delete(node, &DeleteParams::default()).await?;
        expiration::wait_value(fixture, operator, node, None).await?;
    }
    // The Certificate of a deleted node goes first, then its Secret.
    wait_deleted(fixture, "issued-sidecar-tls").await?;
    let now = fixture.api::<Secret>().get(OWN).await?;
    assert_eq!(now.metadata, own.metadata, "the Secret of the user is not touched");
    Ok(())
}
