//! `result-export`: uploads block results in pages of 1000 blocks.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome, skipped};
use crate::bucket::{self, BucketClient};
use crate::node::{files, home, rpc};
use crate::settings::Bucket;

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::ResultExport,
    locks: &[Resource::Export],
    deadline: Deadline::After(Duration::from_secs(24 * 3600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// Blocks per object.
const PAGE_BLOCKS: u64 = 1000;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    bucket: String,
    region: String,
    prefix: String,
    rpc_endpoint: String,
    canonical_rpc: String,
}

/// State file: the last exported block.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExportState {
    last_exported_height: u64,
}

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: Params = ctx.params()?;
    for (name, value) in [("bucket", &params.bucket), ("region", &params.region)] {
        if value.is_empty() {
            return Err(TaskError::new(format_args!("{name} is required")));
        }
    }
    if params.bucket.contains("://") {
        // `file://` is reserved for settings: a caller must not write wherever the sidecar can.
        return Err(TaskError::new("bucket must be a bucket name, not a URL"));
    }
    if !params.canonical_rpc.is_empty() {
        return Err(TaskError::new(
            "canonicalRpc: comparison is not supported by this build; omit it to export only",
        ));
    }
    let rpc =
        if params.rpc_endpoint.is_empty() { &ctx.node.settings().node_rpc } else { &params.rpc_endpoint };
    let rpc = rpc.trim_end_matches('/');
    let Ok(status) = rpc::status(rpc, rpc::QUERY_TIMEOUT).await else {
        return skipped("node RPC did not respond");
    };
    let latest = u64::try_from(status.height).unwrap_or_default();
    let first = last_exported(ctx.node.home())? + 1;
    let pages = (latest + 1).saturating_sub(first) / PAGE_BLOCKS;
    if pages == 0 {
        return skipped("less than one page of new blocks");
    }
    let bucket = Bucket { name: params.bucket, region: params.region };
    let store = BucketClient::open(&bucket)
        .map_err(|error| TaskError::new(format_args!("result-export: {error}")))?;
    let prefix = match params.prefix.trim_matches('/') {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    };
    for page in 0..pages {
        let (from, to) = (first + page * PAGE_BLOCKS, first + (page + 1) * PAGE_BLOCKS - 1);
        export_page(rpc, &store, &format!("{prefix}{from}-{to}.ndjson.gz"), from, to).await?;
        let text = serde_json::to_vec(&ExportState { last_exported_height: to }).map_err(TaskError::new)?;
        files::write(&ctx.node.home().join(home::LAST_EXPORT), &text, 0o644).map_err(TaskError::new)?;
        ctx.execution.progress.set(&json!({ "pages": page + 1, "lastExportedHeight": to }));
    }
    Ok(Some(json!({ "pages": pages, "lastExportedHeight": first + pages * PAGE_BLOCKS - 1 })))
}

/// Returns the last exported height, or the height of the restored snapshot: a restored node has no earlier blocks.
fn last_exported(node_home: &Path) -> Result<u64, TaskError> {
    let state = files::read(&node_home.join(home::LAST_EXPORT)).map_err(TaskError::new)?;
    if let Some(state) = state.and_then(|text| serde_json::from_str::<ExportState>(&text).ok()) {
        return Ok(state.last_exported_height);
    }
    let restored = files::read(&node_home.join(home::SNAPSHOT_HEIGHT)).map_err(TaskError::new)?;
    Ok(restored.and_then(|text| text.trim().parse().ok()).unwrap_or_default())
}

async fn export_page(
    rpc: &str,
    store: &BucketClient,
    key: &str,
    from: u64,
    to: u64,
) -> Result<(), TaskError> {
    let failed = |error: bucket::Error| TaskError::new(format_args!("result-export: {error}"));
    let mut upload = store.upload(key).await.map_err(failed)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for height in from..=to {
        let response = rpc::query(rpc, &format!("block_results?height={height}"), rpc::QUERY_TIMEOUT).await;
        let results = response.map_err(|error| {
            TaskError::new(format_args!("exporting page {from}-{to}: results of block {height}: {error}"))
        })?;
        let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let line = json!({ "height": height, "exported_at": at, "block_results": results });
        writeln!(encoder, "{line}").map_err(TaskError::new)?;
        let compressed = std::mem::take(encoder.get_mut());
        upload.write(&compressed).await.map_err(failed)?;
    }
    upload.write(&encoder.finish().map_err(TaskError::new)?).await.map_err(failed)?;
    upload.finish().await.map_err(failed)
}
