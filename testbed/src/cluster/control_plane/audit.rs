//! The API server's audit log: an exact account of who asked what.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{IoContext, Result};
use crate::harness::wait;

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
    /// What was sent, for access reviews only.
    pub body: Option<Value>,
    /// The answer's HTTP code.
    pub code: u16,
    /// When it came to the API server.
    pub received: MicroTime,
    /// When it was answered; a watch, when it began.
    pub answered: MicroTime,
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

    /// Every request so far that `wanted` accepts, in the order of the log.
    pub fn requests(&self, wanted: impl Fn(&AuditedRequest) -> bool) -> Result<Vec<AuditedRequest>> {
        let text = fs::read_to_string(&self.path).context(|| format!("reading {}", self.path.display()))?;
        let (requests, _) = parse(&text, &mut HashSet::new())?;
        Ok(requests.into_iter().filter(|request| wanted(request)).collect())
    }

    /// A reader who begins at the beginning and reads nothing twice: the log of a thousand nodes is too long to be read anew at
    /// every look.
    #[must_use]
    pub fn reader(&self) -> AuditReader {
        AuditReader { path: self.path.clone(), read: 0, seen: HashSet::new() }
    }

    /// A reader who begins with what is logged from now on.
    pub fn reader_from_now(&self) -> Result<AuditReader> {
        let length = fs::metadata(&self.path).context(|| format!("reading {}", self.path.display()))?.len();
        Ok(AuditReader { path: self.path.clone(), read: length, seen: HashSet::new() })
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

/// Reads the audit log as it grows.
#[derive(Debug)]
pub struct AuditReader {
    path: PathBuf,
    /// How many bytes were read.
    read: u64,
    /// Ids of requests that were logged.
    seen: HashSet<String>,
}

impl AuditReader {
    /// Every request that was logged since the last call, in the order of the log.
    pub fn news(&mut self) -> Result<Vec<AuditedRequest>> {
        let what = || format!("reading {}", self.path.display());
        let mut file = File::open(&self.path).context(what)?;
        file.seek(SeekFrom::Start(self.read)).context(what)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).context(what)?;
        let (requests, length) = parse(&String::from_utf8_lossy(&bytes), &mut self.seen)?;
        self.read += length as u64;
        Ok(requests)
    }
}

/// Reads what was logged, and tells how much of it are whole lines. The last one may be half written: the server writes
/// while we read. A watch is logged when it begins and again when it ends: `seen` are the ids of those that were logged.
fn parse(text: &str, seen: &mut HashSet<String>) -> Result<(Vec<AuditedRequest>, usize)> {
    let length = text.rfind('\n').map_or(0, |end| end + 1);
    let mut requests = Vec::new();
    for line in text[..length].lines() {
        let event: Event = serde_json::from_str(line)?;
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
            body: event.request_object,
            code: event.response_status.code,
            received: event.request_received_timestamp,
            answered: event.stage_timestamp,
        });
    }
    Ok((requests, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: &str = r#"{"auditID":"a","stage":"ResponseStarted","verb":"watch","user":{"username":"u"},"userAgent":"x/1","objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.000002Z"}"#;

    #[test]
    fn a_watch_counts_once_and_a_half_written_line_not_at_all() {
        let text =
            format!("{WATCH}\n{}\n{{\"auditID\":\"b\"", WATCH.replace("ResponseStarted", "ResponseComplete"));
        let (requests, length) = parse(&text, &mut HashSet::new()).unwrap();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert_eq!((requests[0].resource.as_str(), requests[0].code), ("pods", 200));
        assert!(!requests[0].is_write());
        assert_eq!(&text[length..], "{\"auditID\":\"b\"");
    }

    #[test]
    fn a_reader_reads_every_line_once_however_it_was_written() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut reader = Audit::at(log.path().to_owned()).reader();
        let lines = format!("{WATCH}\n{}\n", WATCH.replace("\"a\"", "\"b\""));
        let (first, rest) = lines.split_at(WATCH.len() + 20);
        fs::write(log.path(), first).unwrap();
        assert_eq!(reader.news().unwrap().len(), 1);
        fs::write(log.path(), format!("{first}{rest}")).unwrap();
        assert_eq!(reader.news().unwrap().len(), 1);
        assert!(reader.news().unwrap().is_empty());
    }
}
