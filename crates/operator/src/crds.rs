//! Checks at startup that the installed CRDs are as new as this operator. The API server silently drops fields that an older
//! CRD does not define: the operator would write them again and again, and they would never appear in status.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::group;
use kube::Client;
use serde_json::Value;

/// Most missing fields that an error names.
const MAX_NAMED_FIELDS: usize = 5;

/// How long the API server may take to publish the schema of a CRD that was just installed.
const TIMEOUT: Duration = Duration::from_secs(20);

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// An error of the installed CRDs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kind is not served.
    #[error("the SeiNode CRD is not installed: run outrigger crds | kubectl apply --server-side -f -")]
    NotInstalled,
    /// Fields are missing.
    #[error(
        "the installed SeiNode CRD is older than this operator and lacks {0}: \
         run outrigger crds | kubectl apply --server-side -f -"
    )]
    Outdated(String),
    /// The API server did not return the schema.
    #[error("cannot read the SeiNode schema from the API server: {0}")]
    Unreachable(Box<kube::Error>),
}

/// Fails unless the API server serves every SeiNode field that this operator knows. Retries, since the schema of a CRD that
/// was just installed is published with a delay.
pub(crate) async fn check(client: &Client) -> Result<(), Error> {
    let begin = tokio::time::Instant::now();
    loop {
        match check_once(client).await {
            Err(error) if begin.elapsed() < TIMEOUT => {
                tracing::info!(%error, "CRD check failed; retrying");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            result => return result,
        }
    }
}

async fn check_once(client: &Client) -> Result<(), Error> {
    let path = format!("/openapi/v3/apis/{}/{}", group::SEI, group::VERSION);
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| Error::Unreachable(Box::new(kube::Error::HttpError(error))))?;
    let document: Value = match client.request(request).await {
        Ok(document) => document,
        Err(kube::Error::Api(status)) if status.code == 404 => return Err(Error::NotInstalled),
        Err(error) => return Err(Error::Unreachable(Box::new(error))),
    };
    let served = served_fields(&document).ok_or(Error::NotInstalled)?;
    let missing: Vec<String> = known_fields().difference(&served).cloned().collect();
    match missing.len() {
        0 => Ok(()),
        count if count <= MAX_NAMED_FIELDS => Err(Error::Outdated(missing.join(", "))),
        count => {
            let named = missing[..MAX_NAMED_FIELDS].join(", ");
            Err(Error::Outdated(format!("{named} and {} more", count - MAX_NAMED_FIELDS)))
        }
    }
}

/// Returns the SeiNode fields in the OpenAPI document of the API server.
fn served_fields(document: &Value) -> Option<BTreeSet<String>> {
    let is_node = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] == "SeiNode"))
    };
    let schema = document["components"]["schemas"].as_object()?.values().find(is_node)?;
    Some(field_paths(schema))
}

/// Returns the SeiNode fields that this operator knows.
fn known_fields() -> BTreeSet<String> {
    let crd = api::crd::all().into_iter().find(|crd| crd.spec.names.kind == "SeiNode");
    let versions = crd.map(|crd| crd.spec.versions).unwrap_or_default();
    let schemas = versions.into_iter().filter_map(|version| version.schema?.open_api_v3_schema);
    schemas
        .filter_map(|schema| serde_json::to_value(schema).ok())
        .flat_map(|schema| field_paths(&schema))
        .collect()
}

/// Returns the paths of all fields below `spec` and `status`. `metadata` belongs to the API server.
fn field_paths(schema: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for root in ["spec", "status"] {
        collect(&schema["properties"][root], root, &mut paths);
    }
    paths
}

fn collect(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        collect(field, &path, paths);
        paths.insert(path);
    }
    for elements in [&schema["items"], &schema["additionalProperties"]] {
        if elements.is_object() {
            collect(elements, path, paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_include_nested_spec_and_status_fields() {
        let fields = known_fields();
        for path in
            ["spec.sidecar.tls.issuerName", "status.plan.tasks.retryCount", "status.waitingFor.message"]
        {
            assert!(fields.contains(path), "{path} in {fields:?}");
        }
    }
}
