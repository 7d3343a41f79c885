//! Publishes the reports of one round with one server-side apply, to the first API server that can be reached. A failed publish is not
//! queued: the next round has fresher reports.

mod response;
mod server;

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use plan::kms::publication::{DetailLevel, PreviousReports, ProbeReport, Publication};
use plan::kms::target::api_path;
use prost::bytes::Bytes;
use runtime::metrics::Metrics;
use serde_json::{Value, json};

pub(super) use self::response::Outcome;
use self::response::{PartialObject, PublishError};
use self::server::ApiServer;
use super::settings::Settings;

/// An apply returns the whole object with the reports of all nodes, which the reporter does not need.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Publishes the reports of one node.
pub(super) struct Publisher {
    publication: Publication,
    manager: String,
    timeout: Duration,
    servers: Vec<ApiServer>,
    /// Transition time of the node's condition; known once the object was read or written.
    condition_since: Option<Time>,
    /// Number of reporters that write the object, as last observed.
    writers: usize,
}

/// How to publish.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishOptions {
    /// Longest time until the next report.
    pub(super) interval: Duration,
    /// Sends the resourceVersion, so that the server rejects a concurrent write instead of retrying the apply.
    pub(super) fail_on_conflict: bool,
}

/// Result of a publish.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) outcome: Outcome,
    /// Delay of the Retry-After header.
    pub(super) retry_after: Option<Duration>,
}

impl From<PublishError> for Published {
    fn from(PublishError { outcome, retry_after }: PublishError) -> Self {
        Self { outcome, retry_after }
    }
}

impl Publisher {
    pub(super) fn new(settings: &Settings, metrics: &Metrics) -> Self {
        Self {
            publication: settings.publication.clone(),
            manager: settings.manager.clone(),
            timeout: settings.write_timeout,
            servers: ApiServer::from_settings(&settings.servers, metrics),
            condition_since: None,
            writers: 1,
        }
    }

    /// Returns the number of reporters that write the object, this one included, as last observed.
    pub(super) fn writers(&self) -> usize {
        self.writers
    }

    /// Publishes reports. The timeout applies to each API server separately.
    pub(super) async fn publish(&mut self, reports: &[ProbeReport], options: PublishOptions) -> Published {
        self.publication.interval = options.interval;
        let timeout = self.timeout;
        let mut last = PublishError::from(Outcome::Unreachable("no API server configured".into()));
        for index in 0..self.servers.len() {
            let publish = self.publish_to(index, reports, options.fail_on_conflict);
            last = match tokio::time::timeout(timeout, publish).await {
                Ok(Ok(outcome)) => outcome.into(),
                Ok(Err(error)) => error,
                Err(_) => Outcome::Timeout(timeout).into(),
            };
            self.discard_stale_client(index, &last.outcome);
            if !last.outcome.is_worth_failover() {
                break;
            }
        }
        last.into()
    }

    async fn publish_to(
        &mut self,
        index: usize,
        reports: &[ProbeReport],
        fail_on_conflict: bool,
    ) -> Result<Outcome, PublishError> {
        let since = self.condition_since.clone().unwrap_or_else(|| Time(Timestamp::now()));
        let version = if fail_on_conflict { self.read_resource_version(index).await? } else { None };
        let mut outcome = Outcome::Stored;
        if let Err(error) = self.apply(index, reports, &since, DetailLevel::Full, version.as_deref()).await {
            let Outcome::Rejected(why) = error.outcome else { return Err(error) };
            self.apply(index, reports, &since, DetailLevel::Minimal, version.as_deref()).await?;
            outcome = Outcome::StoredSmallest(why);
        }
        self.condition_since = Some(since);
        Ok(outcome)
    }

    async fn apply(
        &mut self,
        index: usize,
        reports: &[ProbeReport],
        since: &Time,
        size: DetailLevel,
        version: Option<&str>,
    ) -> Result<(), PublishError> {
        let body = self.publication.render(reports, since, size);
        let mut body = body.map_err(|error| Outcome::Rejected(error.to_string()))?;
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        let Publication { target, name, .. } = &self.publication;
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{}/status?fieldManager={}&force=true", api_path(*target, name), self.manager))
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .header(ACCEPT, ONLY_METADATA)
            .body(Body::from(body.to_string().into_bytes()));
        let response = self.send(index, request).await?;
        self.update_writers(&PartialObject::parse(&response));
        Ok(())
    }

    async fn read_resource_version(&mut self, index: usize) -> Result<Option<String>, PublishError> {
        let Publication { target, name, .. } = &self.publication;
        let request = Request::get(api_path(*target, name)).header(ACCEPT, ONLY_METADATA).body(Body::empty());
        let object = PartialObject::parse(&self.send(index, request).await?);
        self.update_writers(&object);
        Ok(object.resource_version().map(str::to_owned))
    }

    fn update_writers(&mut self, object: &PartialObject) {
        self.writers = object.writers().map_or(self.writers, |writers| writers.max(1));
    }

    /// Reads what a previous process published, unless this process has published since. Returns an error only if no API server can
    /// be reached; a reporter that may not read starts without previous reports.
    pub(super) async fn read_previous(&mut self) -> Result<PreviousReports, Outcome> {
        let mut last = Ok(PreviousReports::default());
        if self.condition_since.is_some() {
            return last;
        }
        for index in 0..self.servers.len() {
            let Publication { target, name, .. } = &self.publication;
            let request = Request::get(api_path(*target, name)).body(Body::empty());
            let response = tokio::time::timeout(self.timeout, self.send(index, request)).await;
            let outcome = match response {
                Ok(Ok(response)) => {
                    self.update_writers(&PartialObject::parse(&response));
                    let object: Value = serde_json::from_slice(&response).unwrap_or_default();
                    let previous = self.publication.read_previous(&object);
                    self.condition_since = previous.since.clone();
                    return Ok(previous);
                }
                Ok(Err(error)) => error.outcome,
                Err(_) => Outcome::Timeout(self.timeout),
            };
            self.discard_stale_client(index, &outcome);
            if !outcome.is_worth_failover() {
                return Ok(PreviousReports::default());
            }
            last = Err(outcome);
        }
        last
    }

    /// Discards a client whose failure may come from credentials or CA bundles that were rotated since it was created.
    fn discard_stale_client(&mut self, index: usize, outcome: &Outcome) {
        if outcome.needs_new_client()
            && let Some(server) = self.servers.get_mut(index)
        {
            server.discard_client();
        }
    }

    async fn send(
        &mut self,
        index: usize,
        request: http::Result<Request<Body>>,
    ) -> Result<Bytes, PublishError> {
        let request = request.map_err(|error| Outcome::Rejected(error.to_string()))?;
        let server =
            self.servers.get_mut(index).ok_or_else(|| Outcome::Unreachable("no such API server".into()))?;
        let client = server.client().await.map_err(Outcome::NoCredentials)?;
        let response = client.send(request).await.map_err(|error| Outcome::from_error(&error))?;
        response::read(response).await
    }
}
