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
use runtime::metrics::Metrics;
use serde_json::Value;

use self::access::Way;
pub(super) use self::answer::Outcome;
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
}

impl Publisher {
    pub(super) fn new(settings: &Settings, metrics: &Metrics) -> Self {
        Self {
            publication: settings.publication.clone(),
            manager: settings.manager.clone(),
            within: settings.write_timeout,
            ways: Way::all(&settings.servers, metrics),
            since: None,
        }
    }

    /// Publishes, and says how that went. Each way has a deadline of its own.
    pub(super) async fn publish(&mut self, reports: &[Report]) -> Outcome {
        let mut last = Outcome::Unreachable("there is no way to an API server".into());
        for index in 0..self.ways.len() {
            last = match tokio::time::timeout(self.within, self.publish_by(index, reports)).await {
                Ok(outcome) => outcome,
                Err(_) => Outcome::Timeout(self.within),
            };
            self.refresh(index, &last);
            if !last.is_of_the_way() {
                break;
            }
        }
        last
    }

    async fn publish_by(&mut self, index: usize, reports: &[Report]) -> Outcome {
        let since = self.since.clone().unwrap_or_else(|| Time(Timestamp::now()));
        let outcome = match self.apply(index, reports, &since, Size::Full).await {
            Outcome::Rejected(why) => match self.apply(index, reports, &since, Size::Smallest).await {
                Outcome::Stored => Outcome::StoredSmallest(why),
                other => other,
            },
            other => other,
        };
        if outcome.is_stored() {
            self.since = Some(since);
        }
        outcome
    }

    async fn apply(&mut self, index: usize, reports: &[Report], since: &Time, size: Size) -> Outcome {
        let body = match self.publication.body(reports, since, size) {
            Ok(body) => body.to_string(),
            Err(error) => return Outcome::Rejected(error.to_string()),
        };
        let Publication { target, name, .. } = &self.publication;
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{}/status?fieldManager={}&force=true", target.path(name), self.manager))
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .header(ACCEPT, ONLY_METADATA)
            .body(Body::from(body.into_bytes()));
        self.send(index, request).await.map_or_else(|outcome| outcome, |_| Outcome::Stored)
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
                Ok(Ok(object)) => {
                    let left = self.publication.left_behind(&object);
                    self.since = left.since.clone();
                    return Ok(left);
                }
                Ok(Err(outcome)) => outcome,
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

    async fn send(&mut self, index: usize, request: http::Result<Request<Body>>) -> Result<Value, Outcome> {
        let request = request.map_err(|error| Outcome::Rejected(error.to_string()))?;
        let way = self.ways.get_mut(index).ok_or_else(|| Outcome::Unreachable("no such way".into()))?;
        let client = way.client().await.map_err(Outcome::NoCredentials)?;
        let response = client.send(request).await.map_err(|error| Outcome::of_error(&error))?;
        answer::read(response).await
    }
}
