//! One request and its answer.

use std::time::Duration;

use api::sidecar_wire::{NodeId, SidecarState, SidecarStatus, SubmittedTask, path};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::answer::{self, Answer, Shown};
use super::path::{cleaned, decoded};
use super::submission::Submission;
use super::{LONGEST_HEAD, authn};
use crate::engine::{Engine, Refusal};
use crate::metrics::Metrics;

/// More than any task needs.
const LONGEST_BODY: usize = 1 << 20;

/// What is read of a body that is too large.
const LONGEST_DISCARDED: usize = 8 << 20;

/// How long a body may take.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Answers requests.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) engine: Engine,
    pub(super) metrics: Metrics,
}

impl Router {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        if head.version == Version::HTTP_11 && !head.headers.contains_key(header::HOST) {
            return answer::text(StatusCode::BAD_REQUEST, "400 Bad Request: missing required Host header");
        }
        if length(&head) > LONGEST_HEAD {
            return answer::text(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "431 Request Header Fields Too Large",
            );
        }
        let path = decoded(head.uri.path());
        // Before routing: whoever is nobody learns nothing, not even which paths there are.
        let mode = self.engine.node().settings().authn;
        let caller = match authn::caller(mode, &path, &head.headers, &self.metrics) {
            Ok(caller) => caller,
            Err(refusal) => return *refusal,
        };
        if let Some(clean) = cleaned(&path) {
            return elsewhere(&head, &clean);
        }
        self.routed(&path, &head, body, caller).await
    }

    async fn routed(&self, path: &str, head: &Parts, body: Incoming, caller: Option<String>) -> Answer {
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        if let Some(id) = path.strip_prefix("/v0/tasks/").filter(|id| !id.is_empty() && !id.contains('/')) {
            return match head.method {
                Method::DELETE => self.delete(id, caller).await,
                _ if reads => self.read(id).await,
                _ => answer::not_allowed("DELETE, GET, HEAD"),
            };
        }
        match path {
            path::TASKS if head.method == Method::POST => self.submit(body, caller).await,
            path::TASKS if reads => self.list().await,
            path::TASKS => answer::not_allowed("GET, HEAD, POST"),
            path::HEALTHZ | path::STARTUPZ | path::LIVEZ | path::METRICS | path::STATUS | path::NODE_ID
                if !reads =>
            {
                answer::not_allowed("GET, HEAD")
            }
            path::HEALTHZ | path::STARTUPZ => answer::empty(match self.engine.node().is_ready() {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            }),
            path::LIVEZ => self.live(head).await,
            path::METRICS => answer::with_type(
                StatusCode::OK,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                self.metrics.text(),
            ),
            path::STATUS => {
                let ready = self.engine.node().is_ready();
                let status = if ready { SidecarState::Ready } else { SidecarState::Initializing };
                answer::json(StatusCode::OK, &SidecarStatus { status })
            }
            path::NODE_ID => match self.engine.node().id() {
                Ok(node_id) => answer::json(StatusCode::OK, &NodeId { node_id }),
                Err(error) => answer::error(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            _ => answer::text(StatusCode::NOT_FOUND, "404 page not found"),
        }
    }

    async fn live(&self, head: &Parts) -> Answer {
        let Some(why) = self.engine.hung().await else { return answer::empty(StatusCode::OK) };
        tracing::error!(why, "not alive");
        let verbose = head.uri.query().is_some_and(|query| query.split('&').any(|one| one == "verbose=1"));
        match verbose {
            true => answer::error(StatusCode::SERVICE_UNAVAILABLE, why),
            false => answer::empty(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    async fn submit(&self, body: Incoming, caller: Option<String>) -> Answer {
        let body = match read(body).await {
            Ok(body) => body,
            Err(refusal) => return *refusal,
        };
        let Ok(task) = Submission::read(&body) else {
            return answer::error(StatusCode::BAD_REQUEST, "invalid request body");
        };
        if task.kind.is_empty() {
            return answer::error(StatusCode::BAD_REQUEST, "type is required");
        }
        let by = caller.clone().unwrap_or_default();
        match self.engine.submit(task.id.as_deref(), &task.kind, task.params, caller).await {
            Ok(id) => {
                tracing::info!(task = task.kind, id, caller = by, "submitted");
                answer::json(StatusCode::CREATED, &SubmittedTask { id })
            }
            Err(Refusal::Wrong(why)) => answer::error(StatusCode::BAD_REQUEST, why),
            Err(Refusal::Later(why)) => answer::later(why),
        }
    }

    async fn list(&self) -> Answer {
        match self.engine.newest().await {
            Ok(tasks) => {
                answer::json(StatusCode::OK, &tasks.into_iter().map(Shown::from).collect::<Vec<_>>())
            }
            Err(error) => answer::unavailable(&error),
        }
    }

    async fn read(&self, id: &str) -> Answer {
        match self.engine.get(id).await {
            Ok(Some(task)) => answer::json(StatusCode::OK, &Shown::from(task)),
            Ok(None) => unknown(),
            Err(error) => answer::unavailable(&error),
        }
    }

    async fn delete(&self, id: &str, caller: Option<String>) -> Answer {
        match self.engine.delete(id).await {
            Ok(true) => {
                tracing::info!(id, caller = caller.unwrap_or_default(), "deleted");
                answer::empty(StatusCode::NO_CONTENT)
            }
            Ok(false) => unknown(),
            Err(error) => answer::unavailable(&error),
        }
    }
}

fn unknown() -> Answer {
    answer::error(StatusCode::NOT_FOUND, "task not found")
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, Box<Answer>> {
    let refused = || Box::new(answer::error(StatusCode::BAD_REQUEST, "invalid request body"));
    let too_large = || {
        let why = format!("the body is larger than {LONGEST_BODY} bytes");
        Box::new(answer::error(StatusCode::PAYLOAD_TOO_LARGE, why))
    };
    let reading = async {
        let (mut content, mut length) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame.map_err(|_| refused())?.into_data() else { continue };
            length += chunk.len();
            if length <= LONGEST_BODY {
                content.extend_from_slice(&chunk);
            } else if length > LONGEST_DISCARDED {
                // What is too large is read so far: who is cut off while he speaks does not hear why.
                return Err(too_large());
            }
        }
        if length > LONGEST_BODY { Err(too_large()) } else { Ok(content) }
    };
    tokio::time::timeout(BODY_WITHIN, reading).await.unwrap_or_else(|_| Err(refused()))
}

/// The bytes of a head, near enough: the library lets larger ones through when they come at once.
fn length(head: &Parts) -> usize {
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    head.uri.path().len() + head.uri.query().map_or(0, str::len) + headers.sum::<usize>()
}

/// As Go's router: the same request, at the clean path.
fn elsewhere(head: &Parts, clean: &str) -> Answer {
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut answer = answer::empty(StatusCode::TEMPORARY_REDIRECT);
    if let Ok(location) = HeaderValue::try_from(format!("{clean}{query}")) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}
