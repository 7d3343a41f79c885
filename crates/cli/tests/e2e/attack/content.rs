//! Threat (f): a malicious snapshot, genesis file or bucket.

use std::io::Write as _;

use api::SeiNode;
use api::names::container;
use api::sei_node::SeiNodeStatus;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use testbed::cluster::kubectl;
use testbed::demo::platform::{GENESIS_BUCKET, NAMESPACE, SEID, SNAPSHOT_BUCKET};
use testbed::demo::sei_nodes::SeiNodes;
use testbed::{Context, Error, TestResult};

use crate::fixture;

/// Returns an archive with one entry, without any checks.
fn archive(kind: EntryType, name: &str, link: &str, size: u64, content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    // Written directly: the setters of the library validate names.
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    archive.get_mut().write_all(header.as_bytes())?;
    archive.get_mut().write_all(content)?;
    archive.into_inner()?.finish()
}

/// Creates a node of a hostile chain, waits until its status reports the content as the problem, and deletes it. Its sidecar must have
/// survived.
async fn until_reported(nodes: &SeiNodes<'_>, name: &str, spec: &Value, expected: &str) -> Result<(), Error> {
    let node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
    });
    kubectl::apply(nodes.plane(), &node.to_string())?;
    let is_reported = |_: &SeiNode, status: &SeiNodeStatus| {
        serde_json::to_string(status).unwrap_or_default().contains(expected)
    };
    nodes.wait_until(name, "hostile content to be reported", is_reported).await?;
    let pods = nodes.api::<Pod>().list(&ListParams::default().labels(&format!("sei.io/node={name}"))).await?;
    let sidecars: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod.status.as_ref()?.init_container_statuses.as_ref())
        .flatten()
        .filter(|status| status.name == container::SIDECAR)
        .collect();
    assert!(!sidecars.is_empty(), "{name} has no sidecar");
    assert!(sidecars.iter().all(|status| status.restart_count == 0), "{name}: {sidecars:?}");
    println!("refused: {name}: {expected}");
    nodes.api::<SeiNode>().delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// A genesis file with another hash than the spec has is not used. Without a hash seid judges the file, and the sidecar survives that.
pub async fn hostile_genesis_is_reported_and_sidecar_survives(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let s3 = nodes.platform().s3();
    let depth = 500_000;
    let nested =
        format!(r#"{{"chain_id":"hostile-1","app_state":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    for chain in ["hostile-1", "hostile-2"] {
        s3.put(GENESIS_BUCKET, &format!("{chain}/genesis.json"), nested.clone()).await?;
    }
    let spec =
        json!({ "chainId": "hostile-1", "image": SEID, "fullNode": {}, "genesisHash": "0".repeat(64) });
    until_reported(&nodes, "hostile-hash", &spec, "genesis hash mismatch").await?;
    let spec = json!({ "chainId": "hostile-2", "image": SEID, "fullNode": {} });
    until_reported(&nodes, "hostile-nesting", &spec, "container seid: ").await?;
    Ok(())
}

/// A snapshot writes nothing outside of its directory, and its sizes are not believed.
pub async fn hostile_snapshot_is_reported_and_sidecar_survives(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let s3 = nodes.platform().s3();
    for (name, content, expected) in [
        (
            "hostile-path",
            archive(EntryType::Regular, "../../config/app.toml", "", 1, &[b'x'; 512])?,
            "outside the target directory",
        ),
        (
            "hostile-link",
            archive(EntryType::Symlink, "a", "/.sei/config", 0, &[])?,
            "points outside the target directory",
        ),
        (
            "hostile-device",
            archive(EntryType::Char, "a", "", 0, &[])?,
            "is not a file, directory or symbolic link",
        ),
    ] {
        s3.put(SNAPSHOT_BUCKET, &format!("{name}/state-sync/100.tar.gz"), content).await?;
        s3.put(SNAPSHOT_BUCKET, &format!("{name}/state-sync/latest.txt"), "100").await?;
        let snapshot = json!({ "bootstrapImage": SEID, "s3": { "targetHeight": 200 } });
        let spec = json!({ "chainId": name, "image": SEID, "fullNode": { "snapshot": snapshot } });
        until_reported(&nodes, name, &spec, expected).await?;
    }
    Ok(())
}
