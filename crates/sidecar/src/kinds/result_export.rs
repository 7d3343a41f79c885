//! `result-export`: uploads block results in pages of 1000 blocks. Source and destination are settings of the sidecar: a request that
//! chooses them could send data of the node anywhere.

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
use crate::settings::{ResultExport, Settings};

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::ResultExport,
    locks: &[Resource::Export],
    deadline: Deadline::After(Duration::from_secs(24 * 3600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// Blocks per object.
const PAGE_BLOCKS: u64 = 1000;

/// All parameters are optional, and must be equal to the settings: clients of upstream send them.
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
    if !params.canonical_rpc.is_empty() {
        return Err(TaskError::new(
            "canonicalRpc: comparison is not supported by this build; omit it to export only",
        ));
    }
    let destination = check_destination(&params, ctx.node.settings()).map_err(TaskError::new)?.clone();
    let rpc = &ctx.node.settings().node_rpc;
    let Ok(status) = rpc::status(rpc, rpc::QUERY_TIMEOUT).await else {
        return skipped("node RPC did not respond");
    };
    let latest = u64::try_from(status.height).unwrap_or_default();
    let first = last_exported(ctx.node.home())? + 1;
    let pages = (latest + 1).saturating_sub(first) / PAGE_BLOCKS;
    if pages == 0 {
        return skipped("less than one page of new blocks");
    }
    let store = BucketClient::open(&destination.bucket)
        .map_err(|error| TaskError::new(format_args!("result-export: {error}")))?;
    let prefix = match destination.prefix.as_str() {
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

/// Returns the destination, or why it is not the one of the request.
fn check_destination<'a>(params: &Params, settings: &'a Settings) -> Result<&'a ResultExport, String> {
    let destination = settings.result_export.as_ref().ok_or(
        "exporting is not configured: set --result-export-bucket (SEI_RESULT_EXPORT_BUCKET) and \
         --result-export-region (SEI_RESULT_EXPORT_REGION) of the sidecar",
    )?;
    for (name, requested, allowed, flag) in [
        ("bucket", params.bucket.as_str(), destination.bucket.name.as_str(), "--result-export-bucket"),
        ("region", params.region.as_str(), destination.bucket.region.as_str(), "--result-export-region"),
        ("prefix", params.prefix.trim_matches('/'), destination.prefix.as_str(), "--result-export-prefix"),
        ("rpcEndpoint", params.rpc_endpoint.trim_end_matches('/'), settings.node_rpc.as_str(), "--node-rpc"),
    ] {
        if !requested.is_empty() && requested != allowed {
            return Err(format!(
                "{name} must be the one of the sidecar's settings: omit it, or change {flag} of the sidecar"
            ));
        }
    }
    Ok(destination)
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
