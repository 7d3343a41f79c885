//! The API server's audit log: an exact account of who asked what.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{IoContext, Result};
use crate::wait;

/// The audit log of one control plane.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
}

/// One request. A watch is one request, however many events it carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedRequest {
    /// Verb in Kubernetes' words: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// User name.
    pub user: String,
    /// User agent.
    pub user_agent: String,
    /// API group; empty for the core group and for paths that are no resource.
    pub group: String,
    /// Resource, in the plural; empty for paths that are no resource.
    pub resource: String,
    /// Subresource, such as `status`; empty for none.
    pub subresource: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Object's name; empty for none.
    pub name: String,
    /// The answer's HTTP code.
    pub code: u16,
}

impl AuditedRequest {
    /// True when the request asked for a change.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    verb: String,
    user: EventUser,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct EventUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl Audit {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Every request so far that `wanted` accepts, in the order of the log.
    pub fn requests(&self, wanted: impl Fn(&AuditedRequest) -> bool) -> Result<Vec<AuditedRequest>> {
        let text = fs::read_to_string(&self.path).context(|| format!("reading {}", self.path.display()))?;
        Ok(parse(&text)?.into_iter().filter(|request| wanted(request)).collect())
    }

    /// Waits until at least `count` such requests are logged, and returns them: a request is logged a moment after its
    /// answer was sent.
    pub async fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        wanted: impl Fn(&AuditedRequest) -> bool,
    ) -> Result<Vec<AuditedRequest>> {
        wait::until(format!("{count} such requests in the audit log"), limit, || async {
            let found = self.requests(&wanted).map_err(|error| error.to_string())?;
            if found.len() >= count { Ok(found) } else { Err(format!("{} so far", found.len())) }
        })
        .await
    }
}

/// Reads the log. Its last line may be half written: the server writes while we read.
fn parse(text: &str) -> Result<Vec<AuditedRequest>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut seen = std::collections::HashSet::new();
    let mut requests = Vec::new();
    for line in whole.lines() {
        let event: Event = serde_json::from_str(line)?;
        // A watch is logged when it begins and again when it ends.
        if !seen.insert(event.audit_id) {
            continue;
        }
        requests.push(AuditedRequest {
            verb: event.verb,
            user: event.user.username,
            user_agent: event.user_agent,
            group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.code,
        });
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: &str = r#"{"auditID":"a","stage":"ResponseStarted","verb":"watch","user":{"username":"u"},"userAgent":"x/1","objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200}}"#;

    #[test]
    fn a_watch_counts_once_and_a_half_written_line_not_at_all() {
        let text =
            format!("{WATCH}\n{}\n{{\"auditID\":\"b\"", WATCH.replace("ResponseStarted", "ResponseComplete"));
        let requests = parse(&text).unwrap();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert_eq!((requests[0].resource.as_str(), requests[0].code), ("pods", 200));
        assert!(!requests[0].is_write());
    }
}
