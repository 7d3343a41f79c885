//! Getting the API server's answer: of the present, or of the past when the view is frozen.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Incoming};

use super::event::Event;
use super::exchange::{self, Answer, Exchange};
use super::freeze::{self, Revision};
use super::identity;
use super::query::Query;
use super::refusal::Refusal;
use super::relay::Relay;
use super::request::Verb;
use super::upstream::Answering;
use crate::error::{Error, Result};

impl Exchange {
    /// The answer, kept back for a time, or nothing when there is none; why is then in the journal.
    pub(super) async fn forward(&mut self, body: Incoming, keep_back: Duration) -> Option<Answer> {
        match self.try_forward(body).await {
            Ok(answer) => {
                exchange::pause(keep_back).await;
                Some(answer)
            }
            Err(error) => {
                self.entry.failure(error.to_string());
                None
            }
        }
    }

    async fn try_forward(&mut self, body: Incoming) -> Result<Answer> {
        // The whole body first: a client that dies while it writes must not leave half a request.
        let body = body
            .collect()
            .await
            .map_err(|error| Error::Refused(format!("reading the request: {error}")))?
            .to_bytes();
        self.entry.written(&body);
        if let Some(revision) = self.frozen() {
            let query = Query::parse(&self.asked.query);
            return match self.asked.verb {
                Verb::Get => self.frozen_get(query, body, revision).await,
                Verb::List => self.frozen_list(query, body, revision).await,
                _ => self.frozen_watch(query, body, revision).await,
            };
        }
        let answer = self.send(&self.asked.query.clone(), body).await?;
        Ok(if self.asked.verb == Verb::Watch { self.relay(answer, Vec::new()) } else { pass(answer) })
    }

    /// The revision at which this request sees the world, when it is a read and does not see the present.
    fn frozen(&mut self) -> Option<Revision> {
        let read = match self.asked.verb {
            Verb::Get => !self.asked.name.is_empty() && self.asked.subresource.is_empty(),
            Verb::List | Verb::Watch => true,
            _ => false,
        };
        let (rule, revision) = self.shared.rules.frozen(&self.asked).filter(|_| read)?;
        self.entry.faults([rule.name()]);
        rule.fire();
        Some(revision)
    }

    async fn frozen_list(&mut self, query: Query, body: Bytes, revision: Revision) -> Result<Answer> {
        match freeze::list_query(query, revision) {
            Ok(query) => Ok(pass(self.send(&query.to_string(), body).await?)),
            Err(refusal) => Ok(own(&refusal)),
        }
    }

    /// The API server has no way to read one object's past but by a list, for which the client may lack the permission.
    /// So it is asked in the client's name whether the object may be read, and in the proxy's name what it was.
    async fn frozen_get(&mut self, query: Query, body: Bytes, revision: Revision) -> Result<Answer> {
        let present = self.send(&query.to_string(), body).await?;
        if !present.status().is_success() && present.status() != StatusCode::NOT_FOUND {
            return Ok(pass(present));
        }
        let past = freeze::object(&self.shared.upstream, &self.asked, &self.accept(), revision).await?;
        let Some(object) = past else {
            let message = format!("{} {:?} not found", self.asked.resource, self.asked.name);
            return Ok(own(&Refusal::of(StatusCode::NOT_FOUND).message(message)));
        };
        let mut answer = Response::new(Full::new(Bytes::from(object.to_string())));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(boxed(answer))
    }

    async fn frozen_watch(&mut self, query: Query, body: Bytes, revision: Revision) -> Result<Answer> {
        let begin = freeze::watch_begin(query, revision);
        let answer = self.send(&begin.query.to_string(), body).await?;
        let first = if begin.with_state && answer.status() == StatusCode::OK {
            freeze::state_events(&self.shared.upstream, &self.asked, &begin, &self.accept(), revision).await?
        } else {
            Vec::new()
        };
        Ok(self.relay(answer, first))
    }

    /// Asks the API server in the client's name.
    async fn send(&mut self, query: &str, body: Bytes) -> Result<Response<Answering>> {
        let path = self.head.uri.path();
        let address = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let address: PathAndQuery =
            address.parse().map_err(|_| Error::Refused(format!("{address:?} is no address")))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = Uri::from(address);
        *request.headers_mut() = self.head.headers.clone();
        let answer = self.shared.upstream.send(request, self.holder.as_ref()).await?;
        self.entry.upstream(answer.status());
        Ok(answer)
    }

    /// A watch that began is relayed event by event; a refused one is an answer like any other.
    fn relay(&self, answer: Response<Answering>, first: Vec<Event>) -> Answer {
        if answer.status() != StatusCode::OK {
            return pass(answer);
        }
        let (mut head, source) = answer.into_parts();
        identity::strip_connection(&mut head.headers);
        let (shared, control) = (self.shared.clone(), self.control.clone());
        let relay = Relay::new(shared, control, self.asked.clone(), self.entry.number(), source, first);
        Response::from_parts(head, StreamBody::new(relay.into_frames()).boxed_unsync())
    }

    fn accept(&self) -> String {
        let accept = identity::accepted(&self.head.headers);
        accept.to_str().map_or_else(|_| "application/json".into(), String::from)
    }
}

/// The API server's answer as it comes.
fn pass(answer: Response<Answering>) -> Answer {
    let (mut head, body) = answer.into_parts();
    identity::strip_connection(&mut head.headers);
    Response::from_parts(head, body.map_err(Into::into).boxed_unsync())
}

/// An answer of the proxy's own.
pub(super) fn own(refusal: &Refusal) -> Answer {
    boxed(refusal.answer())
}

fn boxed(answer: Response<Full<Bytes>>) -> Answer {
    answer.map(|body| body.map_err(|never| match never {}).boxed_unsync())
}
