//! Forwards requests to the API server, or reads past state for a frozen view.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Incoming};

use super::error_response::ErrorResponse;
use super::event::Event;
use super::exchange::{self, Exchange, HttpResponse};
use super::freeze::{self, Revision};
use super::identity;
use super::query::Query;
use super::relay::Relay;
use super::request::Verb;
use super::upstream::UpstreamBody;
use crate::error::{Error, Result};

impl Exchange {
    /// Returns the response after a delay; `None` if there is none, with the reason in the journal.
    pub(super) async fn forward(&mut self, body: Incoming, delay: Duration) -> Option<HttpResponse> {
        match self.try_forward(body).await {
            Ok(response) => {
                exchange::pause(delay).await;
                Some(response)
            }
            Err(error) => {
                self.entry.failure(error.to_string());
                None
            }
        }
    }

    async fn try_forward(&mut self, body: Incoming) -> Result<HttpResponse> {
        // Buffer the whole body: a client that dies while sending must not cause a partial request.
        let body = body
            .collect()
            .await
            .map_err(|error| Error::Other(format!("reading the request body: {error}")))?
            .to_bytes();
        self.entry.written(&body);
        if let Some(revision) = self.frozen_revision() {
            let query = Query::parse(&self.info.query);
            return match self.info.verb {
                Verb::Get => self.frozen_get(query, body, revision).await,
                Verb::List => self.frozen_list(query, body, revision).await,
                _ => self.frozen_watch(query, body, revision).await,
            };
        }
        let response = self.send(&self.info.query.clone(), body).await?;
        Ok(if self.info.verb == Verb::Watch {
            self.relay(response, Vec::new())
        } else {
            pass_through(response)
        })
    }

    /// Returns the revision of a frozen view that applies to this read.
    fn frozen_revision(&mut self) -> Option<Revision> {
        let read = match self.info.verb {
            Verb::Get => !self.info.name.is_empty() && self.info.subresource.is_empty(),
            Verb::List | Verb::Watch => true,
            _ => false,
        };
        let (rule, revision) = self.shared.rules.frozen(&self.info).filter(|_| read)?;
        self.entry.faults([rule.name()]);
        rule.fire();
        Some(revision)
    }

    async fn frozen_list(&mut self, query: Query, body: Bytes, revision: Revision) -> Result<HttpResponse> {
        match freeze::list_query(query, revision) {
            Ok(query) => Ok(pass_through(self.send(&query.to_string(), body).await?)),
            Err(error) => Ok(error_response(&error)),
        }
    }

    /// The API server can serve past state only in lists, which the client may not be allowed to do. So the get is
    /// sent as the client for authorization, and the list is sent as the proxy.
    async fn frozen_get(&mut self, query: Query, body: Bytes, revision: Revision) -> Result<HttpResponse> {
        let present = self.send(&query.to_string(), body).await?;
        if !present.status().is_success() && present.status() != StatusCode::NOT_FOUND {
            return Ok(pass_through(present));
        }
        let object = freeze::object(&self.shared.upstream, &self.info, &self.accept(), revision).await?;
        let Some(object) = object else {
            let message = format!("{} {:?} not found", self.info.resource, self.info.name);
            return Ok(error_response(&ErrorResponse::new(StatusCode::NOT_FOUND).message(message)));
        };
        let mut response = Response::new(Full::new(Bytes::from(object.to_string())));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(boxed(response))
    }

    async fn frozen_watch(&mut self, query: Query, body: Bytes, revision: Revision) -> Result<HttpResponse> {
        let start = freeze::watch_start(query, revision);
        let response = self.send(&start.query.to_string(), body).await?;
        let first = if start.with_initial_state && response.status() == StatusCode::OK {
            freeze::state_events(&self.shared.upstream, &self.info, &start, &self.accept(), revision).await?
        } else {
            Vec::new()
        };
        Ok(self.relay(response, first))
    }

    /// Sends a request as the client.
    async fn send(&mut self, query: &str, body: Bytes) -> Result<Response<UpstreamBody>> {
        let path = self.head.uri.path();
        let address = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let address: PathAndQuery =
            address.parse().map_err(|_| Error::Other(format!("{address:?} is not a valid path")))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = Uri::from(address);
        *request.headers_mut() = self.head.headers.clone();
        let response = self.shared.upstream.send(request, self.identity.as_ref()).await?;
        self.entry.upstream(response.status());
        Ok(response)
    }

    /// Relays a started watch event by event; a rejected one is a normal response.
    fn relay(&self, response: Response<UpstreamBody>, first: Vec<Event>) -> HttpResponse {
        if response.status() != StatusCode::OK {
            return pass_through(response);
        }
        let (mut head, source) = response.into_parts();
        identity::strip_hop_by_hop(&mut head.headers);
        let (shared, control) = (self.shared.clone(), self.control.clone());
        let relay = Relay::new(shared, control, self.info.clone(), self.entry.number(), source, first);
        Response::from_parts(head, StreamBody::new(relay.into_frames()).boxed_unsync())
    }

    fn accept(&self) -> String {
        let accept = identity::accepted(&self.head.headers);
        accept.to_str().map_or_else(|_| "application/json".into(), String::from)
    }
}

/// Passes the API server's response through.
fn pass_through(response: Response<UpstreamBody>) -> HttpResponse {
    let (mut head, body) = response.into_parts();
    identity::strip_hop_by_hop(&mut head.headers);
    Response::from_parts(head, body.map_err(Into::into).boxed_unsync())
}

/// Builds a response of the proxy itself.
pub(super) fn error_response(error: &ErrorResponse) -> HttpResponse {
    boxed(error.to_response())
}

fn boxed(response: Response<Full<Bytes>>) -> HttpResponse {
    response.map(|body| body.map_err(|never| match never {}).boxed_unsync())
}
