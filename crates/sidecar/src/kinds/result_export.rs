//! `result-export`: uploads the results of blocks, in pages of a thousand.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work, skipped};
use crate::node::{files, home, rpc};
use crate::objects::{self, Objects};
use crate::settings::Bucket;

pub(super) const KIND: Kind = Kind {
    task: TaskType::ResultExport,
    changes: &[Resource::Export],
    limit: Limit::Within(Duration::from_secs(24 * 3600)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

/// Blocks in one object.
const PAGE: u64 = 1000;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    bucket: String,
    region: String,
    prefix: String,
    rpc_endpoint: String,
    canonical_rpc: String,
}

/// The block that was exported last.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Last {
    last_exported_height: u64,
}

async fn run(work: Work) -> Outcome {
    let params: Params = work.params()?;
    for (name, value) in [("bucket", &params.bucket), ("region", &params.region)] {
        if value.is_empty() {
            return Err(Failure::new(format_args!("{name} is required")));
        }
    }
    if params.bucket.contains("://") {
        // Folders are for what settings name: a caller must not write wherever the sidecar can.
        return Err(Failure::new("bucket must be the name of a bucket"));
    }
    if !params.canonical_rpc.is_empty() {
        return Err(Failure::new(
            "canonicalRpc: comparing is not supported by this build: leave it out to export only",
        ));
    }
    let rpc =
        if params.rpc_endpoint.is_empty() { &work.node.settings().node_rpc } else { &params.rpc_endpoint };
    let rpc = rpc.trim_end_matches('/');
    let Ok(status) = rpc::status(rpc, rpc::PATIENT).await else {
        return skipped("the node's RPC does not answer");
    };
    let newest = u64::try_from(status.height).unwrap_or_default();
    let first = last(work.node.home())? + 1;
    let pages = (newest + 1).saturating_sub(first) / PAGE;
    if pages == 0 {
        return skipped("less than a page of new blocks");
    }
    let bucket = Bucket { name: params.bucket, region: params.region };
    let objects =
        Objects::of(&bucket).map_err(|error| Failure::new(format_args!("result-export: {error}")))?;
    let prefix = match params.prefix.trim_matches('/') {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    };
    for page in 0..pages {
        let (from, to) = (first + page * PAGE, first + (page + 1) * PAGE - 1);
        export(rpc, &objects, &format!("{prefix}{from}-{to}.ndjson.gz"), from, to).await?;
        let text = serde_json::to_vec(&Last { last_exported_height: to }).map_err(Failure::new)?;
        files::write(&work.node.home().join(home::LAST_EXPORT), &text, 0o644).map_err(Failure::new)?;
        work.execution.progress.set(&json!({ "pages": page + 1, "lastExportedHeight": to }));
    }
    Ok(Some(json!({ "pages": pages, "lastExportedHeight": first + pages * PAGE - 1 })))
}

/// A node that was restored from a snapshot has no blocks before it.
fn last(node_home: &Path) -> Result<u64, Failure> {
    let state = files::read(&node_home.join(home::LAST_EXPORT)).map_err(Failure::new)?;
    if let Some(last) = state.and_then(|text| serde_json::from_str::<Last>(&text).ok()) {
        return Ok(last.last_exported_height);
    }
    let restored = files::read(&node_home.join(home::SNAPSHOT_HEIGHT)).map_err(Failure::new)?;
    Ok(restored.and_then(|text| text.trim().parse().ok()).unwrap_or_default())
}

async fn export(rpc: &str, objects: &Objects, key: &str, from: u64, to: u64) -> Result<(), Failure> {
    let failed = |error: objects::Error| Failure::new(format_args!("result-export: {error}"));
    let mut upload = objects.upload(key).await.map_err(failed)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    for height in from..=to {
        let asked = rpc::ask(rpc, &format!("block_results?height={height}"), rpc::PATIENT).await;
        let results = asked.map_err(|error| {
            Failure::new(format_args!("exporting page {from}-{to}: the results of block {height}: {error}"))
        })?;
        let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let line = json!({ "height": height, "exported_at": at, "block_results": results });
        writeln!(packed, "{line}").map_err(Failure::new)?;
        let ready = std::mem::take(packed.get_mut());
        upload.write(&ready).await.map_err(failed)?;
    }
    upload.write(&packed.finish().map_err(Failure::new)?).await.map_err(failed)?;
    upload.finish().await.map_err(failed)
}
