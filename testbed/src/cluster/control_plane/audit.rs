//! Audit log of the API server: all requests of all users.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{IoContext, Result};
use crate::harness::{rbac, wait};

/// Audit log of a control plane.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
}

/// A request. A watch is one request, regardless of the number of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedRequest {
    /// Kubernetes verb: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// User name.
    pub user: String,
    /// User agent.
    pub user_agent: String,
    /// API group; empty for the core group and for non-resource paths.
    pub group: String,
    /// Resource, plural; empty for non-resource paths.
    pub resource: String,
    /// Subresource, such as `status`; empty if none.
    pub subresource: String,
    /// Namespace; empty if none.
    pub namespace: String,
    /// Object name; empty if none.
    pub name: String,
    /// Request body, for SubjectAccessReviews only.
    pub body: Option<Value>,
    /// HTTP status code of the response.
    pub code: u16,
    /// Time at which the API server received it.
    pub received: MicroTime,
    /// Time of the response; for a watch, of its start.
    pub responded: MicroTime,
}

impl AuditedRequest {
    /// Returns true if it changes an object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
            && is_stored(&self.resource, &self.subresource)
    }
}

/// Returns false for TokenRequests and reviews: they are created and not stored.
pub(crate) fn is_stored(resource: &str, subresource: &str) -> bool {
    subresource != "token" && !resource.ends_with("reviews")
}

/// The verb, the resource and the object, as in a permission.
impl fmt::Display for AuditedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        write!(f, ".{}", self.group)?;
        if !self.name.is_empty() {
            write!(f, "/{}", self.name)?;
        }
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in {}", self.namespace) }
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
    request_object: Option<Value>,
    request_received_timestamp: MicroTime,
    stage_timestamp: MicroTime,
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

    /// Returns the requests so far that match `filter`, in log order.
    pub fn requests(&self, filter: impl Fn(&AuditedRequest) -> bool) -> Result<Vec<AuditedRequest>> {
        let text = fs::read_to_string(&self.path).context(|| format!("reading {}", self.path.display()))?;
        let (requests, _) = parse(&text, &mut HashSet::new())?;
        Ok(requests.into_iter().filter(|request| filter(request)).collect())
    }

    /// Returns an incremental reader that starts at the beginning: the log of a thousand nodes is too long to be read again for
    /// every check.
    #[must_use]
    pub fn reader(&self) -> AuditReader {
        AuditReader { path: self.path.clone(), offset: 0, seen_ids: HashSet::new() }
    }

    /// Returns an incremental reader that starts at the current end of the log.
    pub fn reader_from_now(&self) -> Result<AuditReader> {
        let length = fs::metadata(&self.path).context(|| format!("reading {}", self.path.display()))?.len();
        Ok(AuditReader { path: self.path.clone(), offset: length, seen_ids: HashSet::new() })
    }

    /// Returns one line for each kind of request that was denied, and for each that was allowed although the roles in `documents` do
    /// not grant it.
    #[must_use]
    pub fn ungranted(requests: &[AuditedRequest], documents: &[Value]) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for request in requests {
            let line = match request.code {
                403 => format!("denied: {request}"),
                _ if rbac::is_granted(documents, request) => continue,
                _ => format!("not granted by the roles: {request}"),
            };
            if !problems.contains(&line) {
                problems.push(line);
            }
        }
        problems
    }

    /// Returns what the requests of a user say against the permissions that the roles in `documents` grant: the requests that are not
    /// granted, and one line for each permission that is granted and unused. `reasons` lists permissions that are needed and have no
    /// request in the log, each with the reason.
    pub fn permission_problems(
        &self,
        user: &str,
        documents: &[Value],
        reasons: &[(&str, &str)],
    ) -> Result<Vec<String>> {
        let requests = self.requests(|request| request.user == user)?;
        let mut problems = Self::ungranted(&requests, documents);
        let unused = rbac::unused(documents, &requests);
        let is_explained = |permission: &&String| reasons.iter().any(|(known, _)| known == permission);
        problems.extend(
            unused.iter().filter(|one| !is_explained(one)).map(|one| format!("granted and unused: {one}")),
        );
        Ok(problems)
    }

    /// Waits until at least `count` matching requests are logged and returns them: a request is logged shortly after its
    /// response was sent.
    pub async fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        filter: impl Fn(&AuditedRequest) -> bool,
    ) -> Result<Vec<AuditedRequest>> {
        wait::until(format!("{count} matching requests in the audit log"), limit, || async {
            let found = self.requests(&filter).map_err(|error| error.to_string())?;
            if found.len() >= count { Ok(found) } else { Err(format!("{} so far", found.len())) }
        })
        .await
    }
}

/// Incremental reader of the audit log.
#[derive(Debug)]
pub struct AuditReader {
    path: PathBuf,
    /// Number of bytes read.
    offset: u64,
    /// Audit IDs read so far.
    seen_ids: HashSet<String>,
}

impl AuditReader {
    /// Returns the requests logged since the last call, in log order.
    pub fn read_new(&mut self) -> Result<Vec<AuditedRequest>> {
        let what = || format!("reading {}", self.path.display());
        let mut file = File::open(&self.path).context(what)?;
        file.seek(SeekFrom::Start(self.offset)).context(what)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).context(what)?;
        let (requests, length) = parse(&String::from_utf8_lossy(&bytes), &mut self.seen_ids)?;
        self.offset += length as u64;
        Ok(requests)
    }
}

/// Parses all complete lines and returns their total length: the last line may be partial, because the server writes
/// concurrently. A watch is logged when it starts and again when it ends; `seen_ids` filters duplicates.
fn parse(text: &str, seen_ids: &mut HashSet<String>) -> Result<(Vec<AuditedRequest>, usize)> {
    let length = text.rfind('\n').map_or(0, |end| end + 1);
    let mut requests = Vec::new();
    for line in text[..length].lines() {
        let event: Event = serde_json::from_str(line)?;
        if !seen_ids.insert(event.audit_id) {
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
            body: event.request_object,
            code: event.response_status.code,
            received: event.request_received_timestamp,
            responded: event.stage_timestamp,
        });
    }
    Ok((requests, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: &str = r#"{"auditID":"a","stage":"ResponseStarted","verb":"watch","user":{"username":"u"},"userAgent":"x/1","objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.000002Z"}"#;

    #[test]
    fn watch_counts_once_and_partial_line_is_skipped() {
        let text =
            format!("{WATCH}\n{}\n{{\"auditID\":\"b\"", WATCH.replace("ResponseStarted", "ResponseComplete"));
        let (requests, length) = parse(&text, &mut HashSet::new()).unwrap();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert_eq!((requests[0].resource.as_str(), requests[0].code), ("pods", 200));
        assert!(!requests[0].is_write());
        assert_eq!(&text[length..], "{\"auditID\":\"b\"");
    }

    #[test]
    fn permission_problems_are_denied_ungranted_and_unused() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let get = WATCH.replace("watch", "get");
        let of = |id: &str, resource: &str, code: &str| {
            get.replace("\"a\"", &format!("\"{id}\"")).replace("pods", resource).replace("200", code)
        };
        let own = r#"{"auditID":"f","verb":"create","user":{"username":"u"},"objectRef":{"resource":"selfsubjectaccessreviews","apiGroup":"authorization.k8s.io"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z"}"#;
        let other = of("g", "nodes", "403").replace("\"u\"", "\"other\"");
        let lines = [
            of("b", "pods", "200"),
            of("c", "secrets", "403"),
            of("d", "secrets", "403"),
            of("e", "nodes", "404"),
        ];
        fs::write(log.path(), format!("{}\n{own}\n{other}\n", lines.join("\n"))).unwrap();
        let rules = serde_json::json!([{ "apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"] }]);
        let role = serde_json::json!({ "kind": "ClusterRole", "rules": rules });
        let audit = Audit::at(log.path().to_owned());
        let reasons = [("list pods.", "for a reason"), ("list services.", "for another")];
        assert_eq!(
            audit.permission_problems("u", &[role], &reasons).unwrap(),
            [
                "denied: get secrets.",
                "not granted by the roles: get nodes.",
                "granted and unused: get services."
            ]
        );
    }

    #[test]
    fn reader_returns_each_request_once() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut reader = Audit::at(log.path().to_owned()).reader();
        let lines = format!("{WATCH}\n{}\n", WATCH.replace("\"a\"", "\"b\""));
        let (first, rest) = lines.split_at(WATCH.len() + 20);
        fs::write(log.path(), first).unwrap();
        assert_eq!(reader.read_new().unwrap().len(), 1);
        fs::write(log.path(), format!("{first}{rest}")).unwrap();
        assert_eq!(reader.read_new().unwrap().len(), 1);
        assert!(reader.read_new().unwrap().is_empty());
    }
}
