//! Whether the kinds that the API server serves are as new as this operator. A field that an older definition does not know is
//! dropped from what we store, without a word: the operator would write it again and again, and nobody would ever see it.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::group;
use kube::Client;
use serde_json::Value;

/// Most fields that one message names.
const MOST_NAMED: usize = 5;

/// How long the API server may take to describe definitions that were just installed.
const PATIENCE: Duration = Duration::from_secs(20);

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What is wrong with the definitions that are installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kind is not served.
    #[error("the API server serves no SeiNode: outrigger crds | kubectl apply --server-side -f -")]
    NotInstalled,
    /// Fields are missing.
    #[error(
        "the installed definition of SeiNode is older than this operator and lacks {0}: \
         outrigger crds | kubectl apply --server-side -f -"
    )]
    Older(String),
    /// The API server could not be asked.
    #[error("asking the API server for the definition of SeiNode: {0}")]
    Unreachable(Box<kube::Error>),
}

/// Fails unless every field of a SeiNode that this operator knows is served. Definitions that were just installed take the API
/// server a moment to describe, so that it is asked more than once.
pub(crate) async fn check(client: &Client) -> Result<(), Error> {
    let begin = tokio::time::Instant::now();
    loop {
        match look(client).await {
            Err(error) if begin.elapsed() < PATIENCE => {
                tracing::info!(%error, "looking again");
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            seen => return seen,
        }
    }
}

async fn look(client: &Client) -> Result<(), Error> {
    let path = format!("/openapi/v3/apis/{}/{}", group::SEI, group::VERSION);
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| Error::Unreachable(Box::new(kube::Error::HttpError(error))))?;
    let document: Value = match client.request(request).await {
        Ok(document) => document,
        Err(kube::Error::Api(status)) if status.code == 404 => return Err(Error::NotInstalled),
        Err(error) => return Err(Error::Unreachable(Box::new(error))),
    };
    let served = served(&document).ok_or(Error::NotInstalled)?;
    let missing: Vec<String> = wanted().difference(&served).cloned().collect();
    match missing.len() {
        0 => Ok(()),
        all if all <= MOST_NAMED => Err(Error::Older(missing.join(", "))),
        all => {
            Err(Error::Older(format!("{} and {} more", missing[..MOST_NAMED].join(", "), all - MOST_NAMED)))
        }
    }
}

/// The fields of SeiNode in the API server's own description of its kinds.
fn served(document: &Value) -> Option<BTreeSet<String>> {
    let is_node = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] == "SeiNode"))
    };
    let schema = document["components"]["schemas"].as_object()?.values().find(is_node)?;
    Some(fields_of(schema))
}

/// The fields of SeiNode that this operator knows.
fn wanted() -> BTreeSet<String> {
    let definition = api::crd::all().into_iter().find(|crd| crd.spec.names.kind == "SeiNode");
    let versions = definition.map(|crd| crd.spec.versions).unwrap_or_default();
    let schemas = versions.into_iter().filter_map(|version| version.schema?.open_api_v3_schema);
    schemas
        .filter_map(|schema| serde_json::to_value(schema).ok())
        .flat_map(|schema| fields_of(&schema))
        .collect()
}

/// Paths of what users write and what we do. What is below `metadata` is the API server's own.
fn fields_of(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in ["spec", "status"] {
        collect(&schema["properties"][part], part, &mut found);
    }
    found
}

fn collect(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        collect(field, &path, found);
        found.insert(path);
    }
    collect_below(&schema["items"], path, found);
    collect_below(&schema["additionalProperties"], path, found);
}

fn collect_below(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema.is_object() {
        collect(schema, path, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_node_is_looked_at() {
        let wanted = wanted();
        for path in
            ["spec.sidecar.tls.issuerName", "status.plan.tasks.retryCount", "status.waitingFor.message"]
        {
            assert!(wanted.contains(path), "{path} in {wanted:?}");
        }
    }
}
