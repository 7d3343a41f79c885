//! Request routing.

use std::time::Duration;

use api::sidecar_wire::{NodeId, SidecarState, SidecarStatus, SubmittedTask, path};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::chain_request::parse_app_hash_at;
use super::path::{clean, decode};
use super::request_body::RequestBody;
use super::response::{self, HttpResponse};
use super::task_response::TaskResponse;
use super::{MAX_HEAD, Scope, authn, task_kind};
use crate::engine::{DryRunError, Engine, SubmitError};
use crate::metrics::Metrics;

/// The largest accepted request body.
const MAX_BODY: usize = 1 << 20;

/// How much of a body that is too large is read and discarded.
const MAX_DISCARDED: usize = 8 << 20;

/// Timeout of reading a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Routes requests to the engine.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) engine: Engine,
    pub(super) metrics: Metrics,
    pub(super) scope: Scope,
}

/// What the proxy reports about a request.
struct Sender {
    /// The authenticated user.
    caller: Option<String>,
    /// The task type that the user was authorized for; `None` if it is authorized for all.
    kind: Option<String>,
}

impl Router {
    pub(super) async fn handle(&self, request: Request<Incoming>) -> HttpResponse {
        let (head, body) = request.into_parts();
        if head.version == Version::HTTP_11 && !head.headers.contains_key(header::HOST) {
            return response::text(StatusCode::BAD_REQUEST, "400 Bad Request: missing required Host header");
        }
        if head_length(&head) > MAX_HEAD {
            return response::text(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "431 Request Header Fields Too Large",
            );
        }
        if self.scope == Scope::Health {
            return match head.uri.path() {
                path::HEALTHZ if head.method == Method::GET => self.healthz(),
                _ => not_found(),
            };
        }
        let path = decode(head.uri.path());
        // Before routing: unauthenticated clients learn nothing, not even which paths exist.
        let mode = self.engine.node().settings().authn;
        let caller = match authn::authenticate(mode, &path, &head.headers, &self.metrics) {
            Ok(caller) => caller,
            Err(response) => return *response,
        };
        let is_submission =
            head.method == Method::POST && matches!(path.as_str(), path::TASKS | path::DRY_RUN);
        let kind = match task_kind::read(&head.headers, is_submission) {
            Ok(kind) => kind,
            Err(message) => return response::error(StatusCode::BAD_REQUEST, message),
        };
        if let Some(clean) = clean(&path) {
            return redirect(&head, &clean);
        }
        self.route(&path, &head, body, Sender { caller, kind }).await
    }

    async fn route(&self, path: &str, head: &Parts, body: Incoming, sender: Sender) -> HttpResponse {
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        if let Some(id) = path.strip_prefix("/v0/tasks/").filter(|id| !id.is_empty() && !id.contains('/')) {
            return match head.method {
                Method::DELETE => self.delete(id, sender.caller).await,
                _ if is_read => self.get(id).await,
                _ => response::not_allowed("DELETE, GET, HEAD"),
            };
        }
        match path {
            path::TASKS if head.method == Method::POST => self.submit(body, sender).await,
            path::TASKS if is_read => self.list().await,
            path::TASKS => response::not_allowed("GET, HEAD, POST"),
            path::DRY_RUN if head.method == Method::POST => self.dry_run(body, sender).await,
            path::DRY_RUN => response::not_allowed("POST"),
            path::HEALTHZ
            | path::STARTUPZ
            | path::LIVEZ
            | path::METRICS
            | path::STATUS
            | path::NODE_ID
            | path::CHAIN
                if !is_read =>
            {
                response::not_allowed("GET, HEAD")
            }
            path::HEALTHZ | path::STARTUPZ => self.healthz(),
            path::LIVEZ => self.livez(head).await,
            path::METRICS => response::with_type(
                StatusCode::OK,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                self.metrics.encode(),
            ),
            path::STATUS => {
                let is_ready = self.engine.node().is_ready();
                let status = if is_ready { SidecarState::Ready } else { SidecarState::Initializing };
                response::json(StatusCode::OK, &SidecarStatus { status })
            }
            path::NODE_ID => match self.engine.node().id() {
                Ok(node_id) => response::json(StatusCode::OK, &NodeId { node_id }),
                Err(error) => response::error(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            path::CHAIN => self.chain(head.uri.query()).await,
            _ => not_found(),
        }
    }

    fn healthz(&self) -> HttpResponse {
        response::empty(match self.engine.node().is_ready() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        })
    }

    async fn livez(&self, head: &Parts) -> HttpResponse {
        let Some(failure) = self.engine.liveness_failure().await else {
            return response::empty(StatusCode::OK);
        };
        tracing::error!(failure, "liveness check failed");
        let is_verbose =
            head.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "verbose=1"));
        match is_verbose {
            true => response::error(StatusCode::SERVICE_UNAVAILABLE, failure),
            false => response::empty(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    async fn chain(&self, query: Option<&str>) -> HttpResponse {
        let app_hash_at = match parse_app_hash_at(query) {
            Ok(app_hash_at) => app_hash_at,
            Err(message) => return response::error(StatusCode::BAD_REQUEST, message),
        };
        match self.engine.node().chain_status(app_hash_at).await {
            Ok(status) => response::json(StatusCode::OK, &status),
            Err(error) => response::unavailable(error.to_string()),
        }
    }

    async fn submit(&self, body: Incoming, Sender { caller, kind }: Sender) -> HttpResponse {
        let request = match read_task_request(body, kind.as_deref()).await {
            Ok(request) => request,
            Err(response) => return *response,
        };
        let user = caller.clone().unwrap_or_default();
        match self.engine.submit(request.id.as_deref(), &request.task_type, request.params, caller).await {
            Ok(id) => {
                tracing::info!(task = request.task_type, id, caller = user, "task submitted");
                response::json(StatusCode::CREATED, &SubmittedTask { id })
            }
            Err(SubmitError::Invalid(message)) => response::error(StatusCode::BAD_REQUEST, message),
            Err(SubmitError::Unavailable(message)) => response::unavailable(message),
        }
    }

    async fn dry_run(&self, body: Incoming, Sender { caller, kind }: Sender) -> HttpResponse {
        let request = match read_task_request(body, kind.as_deref()).await {
            Ok(request) => request,
            Err(response) => return *response,
        };
        let caller = caller.unwrap_or_default();
        match self.engine.dry_run(&request.task_type, request.params).await {
            Ok(result) => {
                tracing::info!(task = request.task_type, caller, "dry-run succeeded");
                response::json(StatusCode::OK, &result)
            }
            Err(DryRunError::Rejected(message)) => {
                tracing::info!(task = request.task_type, caller, error = message, "dry-run failed");
                response::error(StatusCode::UNPROCESSABLE_ENTITY, message)
            }
            Err(DryRunError::Invalid(message)) => response::error(StatusCode::BAD_REQUEST, message),
            Err(DryRunError::Unavailable(message)) => response::unavailable(message.into()),
        }
    }

    async fn list(&self) -> HttpResponse {
        match self.engine.list_newest().await {
            Ok(tasks) => {
                response::json(StatusCode::OK, &tasks.into_iter().map(TaskResponse::from).collect::<Vec<_>>())
            }
            Err(error) => response::ledger_error(&error),
        }
    }

    async fn get(&self, id: &str) -> HttpResponse {
        match self.engine.get(id).await {
            Ok(Some(task)) => response::json(StatusCode::OK, &TaskResponse::from(task)),
            Ok(None) => task_not_found(),
            Err(error) => response::ledger_error(&error),
        }
    }

    async fn delete(&self, id: &str, caller: Option<String>) -> HttpResponse {
        match self.engine.delete(id).await {
            Ok(true) => {
                tracing::info!(id, caller = caller.unwrap_or_default(), "task deleted");
                response::empty(StatusCode::NO_CONTENT)
            }
            Ok(false) => task_not_found(),
            Err(error) => response::ledger_error(&error),
        }
    }
}

fn not_found() -> HttpResponse {
    response::text(StatusCode::NOT_FOUND, "404 page not found")
}

fn task_not_found() -> HttpResponse {
    response::error(StatusCode::NOT_FOUND, "task not found")
}

/// Reads a task request. The proxy authorized the task type `kind`, if it is known: the body must not have another one.
async fn read_task_request(body: Incoming, kind: Option<&str>) -> Result<RequestBody, Box<HttpResponse>> {
    let invalid = |message: &str| Box::new(response::error(StatusCode::BAD_REQUEST, message));
    let body = read_body(body).await?;
    let request = RequestBody::parse(&body).map_err(|_| invalid("invalid request body"))?;
    if request.task_type.is_empty() {
        return Err(invalid("type is required"));
    }
    task_kind::check(kind, &request.task_type).map_err(|message| invalid(&message))?;
    Ok(request)
}

async fn read_body(mut body: Incoming) -> Result<Vec<u8>, Box<HttpResponse>> {
    let invalid = || Box::new(response::error(StatusCode::BAD_REQUEST, "invalid request body"));
    let too_large = || {
        let message = format!("request body is larger than {MAX_BODY} bytes");
        Box::new(response::error(StatusCode::PAYLOAD_TOO_LARGE, message))
    };
    let reading = async {
        let (mut content, mut length) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame.map_err(|_| invalid())?.into_data() else { continue };
            length += chunk.len();
            if length <= MAX_BODY {
                content.extend_from_slice(&chunk);
            } else if length > MAX_DISCARDED {
                // Reading on instead of closing early lets most clients receive the response.
                return Err(too_large());
            }
        }
        if length > MAX_BODY { Err(too_large()) } else { Ok(content) }
    };
    tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or_else(|_| Err(invalid()))
}

/// Returns the approximate size of a request head. The HTTP library accepts larger heads that arrive in one read.
fn head_length(head: &Parts) -> usize {
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    head.uri.path().len() + head.uri.query().map_or(0, str::len) + headers.sum::<usize>()
}

/// Redirects to the clean path, like Go's `http.ServeMux`.
fn redirect(head: &Parts, clean: &str) -> HttpResponse {
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = response::empty(StatusCode::TEMPORARY_REDIRECT);
    if let Ok(location) = HeaderValue::try_from(format!("{clean}{query}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
