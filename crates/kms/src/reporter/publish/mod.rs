//! Publishing the reports of one round: one apply, to the first API server that can be reached. What fails is not kept: the next
//! round has fresher reports.

mod access;
mod answer;

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use plan::kms::publication::{LeftBehind, Publication, Report, Size};
use prost::bytes::Bytes;
use runtime::metrics::Metrics;
use serde_json::{Value, json};

use self::access::Way;
pub(super) use self::answer::Outcome;
use self::answer::{Head, Refusal};
use super::settings::Settings;

/// An apply is answered with the whole object, which holds the reports of all nodes: nobody reads it.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Publishes the reports of one node.
pub(super) struct Publisher {
    publication: Publication,
    manager: String,
    within: Duration,
    ways: Vec<Way>,
    /// Since when the node's condition stands; known after the object was read once.
    since: Option<Time>,
    /// How many reporters write the object, as it was last seen.
    writers: usize,
}

/// How to publish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// How long at most it takes until the next report.
    pub(super) promise: Duration,
    /// Whether the server is to refuse if somebody else was faster, and not to do it anew.
    pub(super) once: bool,
}

/// How publishing went.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) outcome: Outcome,
    /// How long the server asks not to be asked again.
    pub(super) after: Option<Duration>,
}

impl From<Refusal> for Published {
    fn from(Refusal { outcome, after }: Refusal) -> Self {
        Self { outcome, after }
    }
}

impl Publisher {
    pub(super) fn new(settings: &Settings, metrics: &Metrics) -> Self {
        Self {
            publication: settings.publication.clone(),
            manager: settings.manager.clone(),
            within: settings.write_timeout,
            ways: Way::all(&settings.servers, metrics),
            since: None,
            writers: 1,
        }
    }

    /// How many reporters write the object, this one among them, as it was last seen.
    pub(super) fn writers(&self) -> usize {
        self.writers
    }

    /// Publishes, and says how that went. Each way has a deadline of its own.
    pub(super) async fn publish(&mut self, reports: &[Report], order: Order) -> Published {
        self.publication.interval = order.promise;
        let mut last = Refusal::from(Outcome::Unreachable("there is no way to an API server".into()));
        for index in 0..self.ways.len() {
            last = match tokio::time::timeout(self.within, self.publish_by(index, reports, order.once)).await
            {
                Ok(Ok(outcome)) => outcome.into(),
                Ok(Err(refusal)) => refusal,
                Err(_) => Outcome::Timeout(self.within).into(),
            };
            self.refresh(index, &last.outcome);
            if !last.outcome.is_of_the_way() {
                break;
            }
        }
        last.into()
    }

    async fn publish_by(&mut self, index: usize, reports: &[Report], once: bool) -> Result<Outcome, Refusal> {
        let since = self.since.clone().unwrap_or_else(|| Time(Timestamp::now()));
        let version = if once { self.version(index).await? } else { None };
        let mut outcome = Outcome::Stored;
        if let Err(refusal) = self.apply(index, reports, &since, Size::Full, version.as_deref()).await {
            let Outcome::Rejected(why) = refusal.outcome else { return Err(refusal) };
            self.apply(index, reports, &since, Size::Smallest, version.as_deref()).await?;
            outcome = Outcome::StoredSmallest(why);
        }
        self.since = Some(since);
        Ok(outcome)
    }

    async fn apply(
        &mut self,
        index: usize,
        reports: &[Report],
        since: &Time,
        size: Size,
        version: Option<&str>,
    ) -> Result<(), Refusal> {
        let body = self.publication.body(reports, since, size);
        let mut body = body.map_err(|error| Outcome::Rejected(error.to_string()))?;
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        let Publication { target, name, .. } = &self.publication;
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{}/status?fieldManager={}&force=true", target.path(name), self.manager))
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .header(ACCEPT, ONLY_METADATA)
            .body(Body::from(body.to_string().into_bytes()));
        let answer = self.send(index, request).await?;
        self.count(&Head::read(&answer));
        Ok(())
    }

    /// The version that the object has now.
    async fn version(&mut self, index: usize) -> Result<Option<String>, Refusal> {
        let Publication { target, name, .. } = &self.publication;
        let request = Request::get(target.path(name)).header(ACCEPT, ONLY_METADATA).body(Body::empty());
        let head = Head::read(&self.send(index, request).await?);
        self.count(&head);
        Ok(head.version().map(str::to_owned))
    }

    fn count(&mut self, head: &Head) {
        self.writers = head.writers().map_or(self.writers, |writers| writers.max(1));
    }

    /// Reads what an earlier process has left, unless something was published since. Who may not read goes without; where no
    /// server can be reached, that is told instead.
    pub(super) async fn left_behind(&mut self) -> Result<LeftBehind, Outcome> {
        let mut last = Ok(LeftBehind::default());
        if self.since.is_some() {
            return last;
        }
        for index in 0..self.ways.len() {
            let Publication { target, name, .. } = &self.publication;
            let request = Request::get(target.path(name)).body(Body::empty());
            let read = tokio::time::timeout(self.within, self.send(index, request)).await;
            let outcome = match read {
                Ok(Ok(answer)) => {
                    self.count(&Head::read(&answer));
                    let object: Value = serde_json::from_slice(&answer).unwrap_or_default();
                    let left = self.publication.left_behind(&object);
                    self.since = left.since.clone();
                    return Ok(left);
                }
                Ok(Err(refusal)) => refusal.outcome,
                Err(_) => Outcome::Timeout(self.within),
            };
            self.refresh(index, &outcome);
            if !outcome.is_of_the_way() {
                return Ok(LeftBehind::default());
            }
            last = Err(outcome);
        }
        last
    }

    /// What was read at a client's making may be the reason of a failure: tokens and authorities are replaced while we run.
    fn refresh(&mut self, index: usize, outcome: &Outcome) {
        if outcome.asks_for_new_credentials()
            && let Some(way) = self.ways.get_mut(index)
        {
            way.forget();
        }
    }

    async fn send(&mut self, index: usize, request: http::Result<Request<Body>>) -> Result<Bytes, Refusal> {
        let request = request.map_err(|error| Outcome::Rejected(error.to_string()))?;
        let way = self.ways.get_mut(index).ok_or_else(|| Outcome::Unreachable("no such way".into()))?;
        let client = way.client().await.map_err(Outcome::NoCredentials)?;
        let response = client.send(request).await.map_err(|error| Outcome::of_error(&error))?;
        answer::read(response).await
    }
}
