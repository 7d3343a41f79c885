//! A view that has stopped at a revision, as that of an API server whose watch cache hangs. The past is read from the
//! real API server, which keeps it for five minutes at least, until etcd is compacted. After that lists and watches are
//! answered with 410, and gets break; the journal says why.

use std::fmt;

use http::{Response, StatusCode};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::event::Event;
use super::query::Query;
use super::refusal::Refusal;
use super::request::Asked;
use super::upstream::Upstream;
use crate::error::{Error, Result};

/// A moment in the life of a cluster: everything up to this resource version has happened. It is the same moment for
/// every kind, since all of them are in one etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Revision {
    /// True when the event tells of something later than this moment.
    pub(super) fn is_before(self, event: &Event) -> bool {
        event.revision > self.0
    }
}

/// The present, asked of the API server.
pub(super) async fn present(upstream: &Upstream) -> Result<Revision> {
    let list = ask(upstream, "/api/v1/namespaces?limit=1", "application/json").await?;
    let text = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let revision = text
        .parse()
        .map_err(|_| Error::Refused(format!("the API server gave {text:?} as a resource version")))?;
    Ok(Revision(revision))
}

/// The query of a list that is to be answered as of a revision. A list that must be fresher than that is refused in the
/// words of an API server that waited for it in vain.
pub(super) fn list_query(query: Query, revision: Revision) -> Result<Query, Refusal> {
    // A page that follows another belongs to the revision of the first.
    if query.get("continue").is_some_and(|token| !token.is_empty()) {
        return Ok(query);
    }
    let wanted: u64 = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    if wanted > revision.0 {
        return Err(Refusal::of(StatusCode::GATEWAY_TIMEOUT)
            .message(format!("Too large resource version: {wanted}, current: {revision}")));
    }
    if wanted > 0 && query.get("resourceVersionMatch") == Some("Exact") {
        return Ok(query);
    }
    Ok(query.with("resourceVersion", revision.to_string()).with("resourceVersionMatch", "Exact"))
}

/// How a watch begins that the present must not be told to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WatchBegin {
    /// What the API server is asked.
    pub(super) query: Query,
    /// The objects as of the revision are to be told first, since the client asked for a beginning with the state.
    pub(super) with_state: bool,
    /// The end of these is to be marked.
    pub(super) marked: bool,
}

/// The beginning of a watch as of a revision. A watch that goes on from a given version needs no change: what is newer
/// is withheld event by event.
pub(super) fn watch_begin(query: Query, revision: Revision) -> WatchBegin {
    let from_state = matches!(query.get("resourceVersion"), None | Some("" | "0"));
    let streamed = query.is_on("sendInitialEvents");
    if !from_state && !streamed {
        return WatchBegin { query, with_state: false, marked: false };
    }
    let marked = streamed && query.is_on("allowWatchBookmarks");
    let with_state = streamed || query.get("sendInitialEvents").is_none();
    let query = query
        .without("sendInitialEvents")
        .without("resourceVersionMatch")
        .with("resourceVersion", revision.to_string());
    WatchBegin { query, with_state, marked }
}

/// One object as it was, or nothing when it was not there.
pub(super) async fn object(
    upstream: &Upstream,
    asked: &Asked,
    accept: &str,
    revision: Revision,
) -> Result<Option<Value>> {
    let collection = asked.path.trim_end_matches('/').rsplit_once('/').map_or("", |(before, _)| before);
    let query = Query::default().with("fieldSelector", format!("metadata.name={}", asked.name));
    Ok(Collection::read(upstream, collection, query, accept, revision).await?.objects.pop())
}

/// The lines that tell a watch the state as it was.
pub(super) async fn state_events(
    upstream: &Upstream,
    asked: &Asked,
    begin: &WatchBegin,
    accept: &str,
    revision: Revision,
) -> Result<Vec<Event>> {
    let mut query = Query::default();
    for name in ["labelSelector", "fieldSelector"] {
        if let Some(selector) = begin.query.get(name) {
            query = query.with(name, selector);
        }
    }
    let collection = asked.path.replacen("/watch/", "/", 1);
    let found = Collection::read(upstream, &collection, query, accept, revision).await?;
    let mut lines: Vec<Value> =
        found.objects.iter().map(|object| json!({ "type": "ADDED", "object": object })).collect();
    if begin.marked {
        let end = json!({ "k8s.io/initial-events-end": "true" });
        let metadata = json!({ "resourceVersion": revision.to_string(), "annotations": end });
        let object = json!({ "kind": found.kind, "apiVersion": found.api_version, "metadata": metadata });
        lines.push(json!({ "type": "BOOKMARK", "object": object }));
    }
    let read = |line: &Value| Event::read(Bytes::from(format!("{line}\n"))).map_err(Error::Refused);
    lines.iter().map(read).collect()
}

/// A collection as of a revision.
struct Collection {
    kind: String,
    api_version: Value,
    /// Each with its kind, which the API server leaves out in lists.
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
        let mut list = ask(upstream, &format!("{path}?{query}"), &accept_of_list(accept)).await?;
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

async fn ask(upstream: &Upstream, address: &str, accept: &str) -> Result<Value> {
    let answer: Response<Bytes> = upstream.ask(address, accept).await?;
    if !answer.status().is_success() {
        return Err(Error::Refused(format!("the API server answered {} to {address}", answer.status())));
    }
    Ok(serde_json::from_slice(answer.body())?)
}

/// Who wants metadata of one object gets it of a list by another name.
fn accept_of_list(accept: &str) -> String {
    accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROZEN: Revision = Revision(100);

    fn list(query: &str) -> Result<String, Refusal> {
        list_query(Query::parse(query), FROZEN).map(|query| query.to_string())
    }

    #[test]
    fn a_list_is_asked_for_as_of_the_revision() {
        let exact = "resourceVersion=100&resourceVersionMatch=Exact";
        assert_eq!(list("").as_deref(), Ok(exact));
        assert_eq!(list("resourceVersion=0").as_deref(), Ok(exact));
        assert_eq!(list("resourceVersion=7&resourceVersionMatch=NotOlderThan").as_deref(), Ok(exact));
        let kept = "resourceVersion=7&resourceVersionMatch=Exact";
        assert_eq!(list(kept).as_deref(), Ok(kept), "an exact past is older than the view");
        assert_eq!(list("continue=abc&limit=5").as_deref(), Ok("continue=abc&limit=5"));
        assert_eq!(list("resourceVersion=101").map_err(|refusal| refusal.code().as_u16()), Err(504));
    }

    #[test]
    fn a_watch_that_begins_with_the_state_begins_with_the_old_one() {
        let begin = |query: &str| {
            let begin = watch_begin(Query::parse(query), FROZEN);
            (begin.query.to_string(), begin.with_state, begin.marked)
        };
        let from = "watch=1&resourceVersion=100".to_owned();
        assert_eq!(begin("watch=1"), (from.clone(), true, false));
        assert_eq!(begin("watch=1&resourceVersion=0"), (from, true, false));
        assert_eq!(
            begin(
                "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
            ),
            ("watch=1&allowWatchBookmarks=true&resourceVersion=100".into(), true, true)
        );
        assert_eq!(
            begin("watch=1&resourceVersion=98"),
            ("watch=1&resourceVersion=98".into(), false, false),
            "one that goes on is left alone"
        );
    }

    #[test]
    fn metadata_of_a_list_has_another_name() {
        assert_eq!(
            accept_of_list("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        );
        assert_eq!(accept_of_list("application/json"), "application/json");
    }
}
