//! TLS of a running node, with real certificates.

use std::time::Instant;

use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testbed::platform::{FULL_NODE, NAMESPACE};
use testbed::sei_nodes::{SOON, SeiNodes, is_ready};
use testbed::{Context, Error, TestResult, kubectl, wait};

use crate::ground::{self, since};

/// The certificate of the full node.
const CERTIFICATE: &str = "full-node-sidecar-tls";

fn issuer(name: &str) -> Value {
    json!({ "sidecar": { "tls": { "issuerName": name, "issuerKind": "Issuer", "secretName": null } } })
}

async fn certificate(nodes: &SeiNodes<'_>) -> Result<Vec<u8>, Error> {
    let secret = nodes.api::<Secret>().get(CERTIFICATE).await?;
    Ok(secret.data.unwrap_or_default().get("tls.crt").map(|bytes| bytes.0.clone()).unwrap_or_default())
}

/// Edits, waits until the node is as wanted, and says how many pods it took.
async fn cycles(nodes: &SeiNodes<'_>, what: &str, edit: &Value, scheme: Scheme) -> Result<usize, Error> {
    let before = nodes.pod_deletions(FULL_NODE)?;
    let begin = Instant::now();
    nodes.edit(FULL_NODE, edit)?;
    let node = nodes.until(FULL_NODE, what, is_ready).await?;
    let seen = node.status.and_then(|status| status.current_sidecar_tls).map(|tls| tls.scheme);
    assert_eq!(seen, Some(scheme), "{what}");
    let cycles = nodes.pod_deletions(FULL_NODE)? - before;
    println!("{what}: {cycles} pod cycles, {}", since(begin));
    Ok(cycles)
}

/// On, renewed, by another issuer, off: 1, 0, 1 and 1 pod cycles.
pub async fn tls_is_switched_on_renewed_swapped_and_switched_off(cx: Context) -> TestResult {
    let (nodes, _turn) = ground::with_full_node(&cx).await?;
    for name in ["first", "second"] {
        let issuer = json!({
            "apiVersion": "cert-manager.io/v1", "kind": "Issuer",
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": { "selfSigned": {} },
        });
        kubectl::apply(nodes.plane(), &issuer.to_string())?;
    }
    assert_eq!(cycles(&nodes, "TLS on", &issuer("first"), Scheme::Https).await?, 1);

    let (before, pod) = (certificate(&nodes).await?, nodes.pod(FULL_NODE).await?.uid());
    let begin = Instant::now();
    // cert-manager issues anew what is gone: the way in which people force a renewal.
    nodes.api::<Secret>().delete(CERTIFICATE, &DeleteParams::default()).await?;
    wait::until("a new certificate", SOON, || async {
        match certificate(&nodes).await? {
            now if now != before && !now.is_empty() => Ok(()),
            _ => Err(Error::Refused("it is the old one".into())),
        }
    })
    .await?;
    nodes.until(FULL_NODE, "the renewed certificate", is_ready).await?;
    assert_eq!(nodes.pod(FULL_NODE).await?.uid(), pod, "the same pod");
    println!("a renewed certificate: 0 pod cycles, {}", since(begin));

    assert_eq!(cycles(&nodes, "another issuer", &issuer("second"), Scheme::Https).await?, 1);
    assert_ne!(certificate(&nodes).await?, before);
    let off = json!({ "sidecar": { "tls": null } });
    assert_eq!(cycles(&nodes, "TLS off", &off, Scheme::Http).await?, 1);
    nodes.grows(FULL_NODE).await?;
    Ok(())
}
