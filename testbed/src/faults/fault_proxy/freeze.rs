//! A view frozen at a revision, as of an API server with a stuck watch cache. Past state is read from the real API
//! server, which keeps it until etcd compacts it, at least five minutes. After that, lists and watches get 410 and
//! gets break; the journal has the reason.

use std::fmt;

use http::{Response, StatusCode};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::error_response::ErrorResponse;
use super::event::Event;
use super::query::Query;
use super::request::RequestInfo;
use super::upstream::Upstream;
use crate::error::{Error, Result};

/// A point in the history of the cluster: every change up to this resource version. Comparable across kinds,
/// because all are in one etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Revision {
    /// True if the event is newer than this revision.
    pub(super) fn is_before(self, event: &Event) -> bool {
        event.revision > self.0
    }
}

/// Returns the current revision of the API server.
pub(super) async fn current_revision(upstream: &Upstream) -> Result<Revision> {
    let list = get_json(upstream, "/api/v1/namespaces?limit=1", "application/json").await?;
    let text = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let revision = text
        .parse()
        .map_err(|_| Error::Other(format!("invalid resource version {text:?} from the API server")))?;
    Ok(Revision(revision))
}

/// Returns the query of a list as of a revision. A list that requires a newer revision gets the error of an API
/// server whose cache did not catch up.
pub(super) fn list_query(query: Query, revision: Revision) -> Result<Query, ErrorResponse> {
    // A continued list belongs to the revision of its first page.
    if query.get("continue").is_some_and(|token| !token.is_empty()) {
        return Ok(query);
    }
    let requested: u64 = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    if requested > revision.0 {
        return Err(ErrorResponse::new(StatusCode::GATEWAY_TIMEOUT)
            .message(format!("Too large resource version: {requested}, current: {revision}")));
    }
    if requested > 0 && query.get("resourceVersionMatch") == Some("Exact") {
        return Ok(query);
    }
    Ok(query.with("resourceVersion", revision.to_string()).with("resourceVersionMatch", "Exact"))
}

/// How to start a watch in a frozen view.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WatchStart {
    /// Query for the API server.
    pub(super) query: Query,
    /// Send the objects as of the revision first, because the client asked for initial state.
    pub(super) with_initial_state: bool,
    /// Mark the end of the initial state with a bookmark.
    pub(super) with_end_bookmark: bool,
}

/// Returns how to start a watch as of a revision. A watch that resumes from a version needs no change: newer events
/// are withheld one by one.
pub(super) fn watch_start(query: Query, revision: Revision) -> WatchStart {
    let from_state = matches!(query.get("resourceVersion"), None | Some("" | "0"));
    let streamed = query.is_on("sendInitialEvents");
    if !from_state && !streamed {
        return WatchStart { query, with_initial_state: false, with_end_bookmark: false };
    }
    let with_end_bookmark = streamed && query.is_on("allowWatchBookmarks");
    let with_initial_state = streamed || query.get("sendInitialEvents").is_none();
    let query = query
        .without("sendInitialEvents")
        .without("resourceVersionMatch")
        .with("resourceVersion", revision.to_string());
    WatchStart { query, with_initial_state, with_end_bookmark }
}

/// Returns one object as of a revision; `None` if it did not exist.
pub(super) async fn object(
    upstream: &Upstream,
    info: &RequestInfo,
    accept: &str,
    revision: Revision,
) -> Result<Option<Value>> {
    let collection = info.path.trim_end_matches('/').rsplit_once('/').map_or("", |(before, _)| before);
    let query = Query::default().with("fieldSelector", format!("metadata.name={}", info.name));
    Ok(Collection::read(upstream, collection, query, accept, revision).await?.objects.pop())
}

/// Returns the initial events of a watch as of a revision.
pub(super) async fn state_events(
    upstream: &Upstream,
    info: &RequestInfo,
    start: &WatchStart,
    accept: &str,
    revision: Revision,
) -> Result<Vec<Event>> {
    let mut query = Query::default();
    for name in ["labelSelector", "fieldSelector"] {
        if let Some(selector) = start.query.get(name) {
            query = query.with(name, selector);
        }
    }
    let collection = info.path.replacen("/watch/", "/", 1);
    let found = Collection::read(upstream, &collection, query, accept, revision).await?;
    let mut lines: Vec<Value> =
        found.objects.iter().map(|object| json!({ "type": "ADDED", "object": object })).collect();
    if start.with_end_bookmark {
        let end = json!({ "k8s.io/initial-events-end": "true" });
        let metadata = json!({ "resourceVersion": revision.to_string(), "annotations": end });
        let object = json!({ "kind": found.kind, "apiVersion": found.api_version, "metadata": metadata });
        lines.push(json!({ "type": "BOOKMARK", "object": object }));
    }
    let parse = |line: &Value| Event::parse(Bytes::from(format!("{line}\n"))).map_err(Error::Other);
    lines.iter().map(parse).collect()
}

/// A collection as of a revision.
struct Collection {
    kind: String,
    api_version: Value,
    /// Each with kind and API version, which the API server omits in lists.
    objects: Vec<Value>,
}

impl Collection {
    async fn read(
        upstream: &Upstream,
        path: &str,
        query: Query,
        accept: &str,
        revision: Revision,
    ) -> Result<Self> {
        let query = query.with("resourceVersion", revision.to_string()).with("resourceVersionMatch", "Exact");
        let mut list = get_json(upstream, &format!("{path}?{query}"), &list_accept(accept)).await?;
        let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        let api_version = list["apiVersion"].take();
        let mut objects = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for object in &mut objects {
            object["kind"] = json!(kind);
            object["apiVersion"] = api_version.clone();
        }
        Ok(Self { kind, api_version, objects })
    }
}

async fn get_json(upstream: &Upstream, address: &str, accept: &str) -> Result<Value> {
    let answer: Response<Bytes> = upstream.get(address, accept).await?;
    if !answer.status().is_success() {
        return Err(Error::Other(format!("the API server answered {} to {address}", answer.status())));
    }
    Ok(serde_json::from_slice(answer.body())?)
}

/// Partial metadata of a list has another type name than that of an object.
fn list_accept(accept: &str) -> String {
    accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROZEN: Revision = Revision(100);

    fn list(query: &str) -> Result<String, ErrorResponse> {
        list_query(Query::parse(query), FROZEN).map(|query| query.to_string())
    }

    #[test]
    fn list_is_pinned_to_the_revision() {
        let exact = "resourceVersion=100&resourceVersionMatch=Exact";
        assert_eq!(list("").as_deref(), Ok(exact));
        assert_eq!(list("resourceVersion=0").as_deref(), Ok(exact));
        assert_eq!(list("resourceVersion=7&resourceVersionMatch=NotOlderThan").as_deref(), Ok(exact));
        let kept = "resourceVersion=7&resourceVersionMatch=Exact";
        assert_eq!(list(kept).as_deref(), Ok(kept), "an exact older revision is kept");
        assert_eq!(list("continue=abc&limit=5").as_deref(), Ok("continue=abc&limit=5"));
        assert_eq!(list("resourceVersion=101").map_err(|error| error.code().as_u16()), Err(504));
    }

    #[test]
    fn watch_with_initial_state_starts_at_the_revision() {
        let start = |query: &str| {
            let start = watch_start(Query::parse(query), FROZEN);
            (start.query.to_string(), start.with_initial_state, start.with_end_bookmark)
        };
        let from = "watch=1&resourceVersion=100".to_owned();
        assert_eq!(start("watch=1"), (from.clone(), true, false));
        assert_eq!(start("watch=1&resourceVersion=0"), (from, true, false));
        assert_eq!(
            start(
                "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
            ),
            ("watch=1&allowWatchBookmarks=true&resourceVersion=100".into(), true, true)
        );
        assert_eq!(
            start("watch=1&resourceVersion=98"),
            ("watch=1&resourceVersion=98".into(), false, false),
            "a resumed watch is unchanged"
        );
    }

    #[test]
    fn list_metadata_has_its_own_type_name() {
        assert_eq!(
            list_accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        );
        assert_eq!(list_accept("application/json"), "application/json");
    }
}
