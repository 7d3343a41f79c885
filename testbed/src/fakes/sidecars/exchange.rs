//! Handles one request: first the proxy (authentication, authorization), then the sidecar.

use std::sync::Arc;
use std::time::SystemTime;

use api::names::group;
use api::sidecar_wire::{
    DryRunResult, ErrorBody, NodeId, SidecarState, SidecarStatus, SubmittedTask, TaskRequest, TaskResult,
    TaskType, path,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::connection::ConnectionControl;
use super::journal;
use super::name::NodeName;
use super::params;
use super::script::{self, RequestFault, RequestInfo};
use super::state::Shared;

pub(super) type HttpResponse = Response<Full<Bytes>>;

/// Larger than any task.
const MAX_BODY: usize = 1 << 20;

/// Answers a request. `named` is the node selected by the TLS server name, if the connection uses TLS.
pub(super) async fn answer(
    shared: Arc<Shared>,
    control: Arc<ConnectionControl>,
    named: Option<NodeName>,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    let Some(node) = node_from_host(&head).filter(|node| named.as_ref().is_none_or(|named| named == node))
    else {
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown host name, or connection belongs to another node",
        );
    };
    let transport = shared.with(|state| {
        state.is_reachable(&node).then(|| {
            let entry = state.node(&node);
            entry.track_connection(&control);
            entry.transport.is_tls()
        })
    });
    match transport {
        None => match control.reset().await {},
        Some(tls) if tls != named.is_some() => return wrong_transport(),
        Some(_) => {}
    }
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        return bad_request("invalid request body");
    };
    Exchange::begin(shared, control, node, named.is_some(), head, &body.to_bytes()).run().await
}

fn node_from_host(head: &Parts) -> Option<NodeName> {
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    NodeName::from_host(host.or_else(|| head.uri.host())?)
}

/// One request to one node.
struct Exchange {
    shared: Arc<Shared>,
    control: Arc<ConnectionControl>,
    node: NodeName,
    head: Parts,
    /// The submitted task, if the body contains one.
    task: Option<TaskRequest>,
    /// Index of the request in the journal.
    index: usize,
    fault: Option<RequestFault>,
}

impl Exchange {
    /// Records the request and looks up the scripted fault.
    fn begin(
        shared: Arc<Shared>,
        control: Arc<ConnectionControl>,
        node: NodeName,
        tls: bool,
        head: Parts,
        body: &[u8],
    ) -> Self {
        // Data after the first JSON value is ignored, like the real sidecar does.
        let task = TaskRequest::deserialize(&mut serde_json::Deserializer::from_slice(body)).ok();
        let task = task.filter(|_| head.method == Method::POST);
        let read = script::task_id(head.uri.path());
        let task_id = task.as_ref().and_then(|task| task.id.clone()).or_else(|| read.map(str::to_owned));
        let known = read.and_then(|id| shared.task(&node, id)).map(|task| task.task_type);
        let task_type = task.as_ref().map(|task| task.task_type.clone()).or(known);
        let info = RequestInfo {
            node: &node,
            method: &head.method,
            path: head.uri.path(),
            task_type: task_type.as_deref(),
        };
        let fault = shared.with(|state| state.scripts.request_fault(&info));
        let index = shared.journal.push(journal::Request {
            at: SystemTime::now(),
            node: node.clone(),
            tls,
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            task_type,
            task_id,
            submission: None,
            answer: None,
        });
        Self { shared, control, node, head, task, index, fault }
    }

    async fn run(mut self) -> HttpResponse {
        let answer = match self.fault.take() {
            None => self.handle_at_proxy(false),
            Some(RequestFault::Forbidden) => self.handle_at_proxy(true),
            Some(RequestFault::Respond(code, message)) => text(code, &message),
            Some(RequestFault::DelayResponse(time)) => {
                let answer = self.handle_at_proxy(false);
                tokio::time::sleep(time).await;
                answer
            }
            Some(RequestFault::LoseResponse) => {
                self.handle_at_proxy(false);
                match self.control.reset().await {}
            }
            Some(RequestFault::Hang) => std::future::pending().await,
            Some(RequestFault::Reset) => match self.control.reset().await {},
        };
        self.shared.journal.update(self.index, |request| request.answer = Some(answer.status()));
        answer
    }

    /// Runs the checks of the proxy, then forwards to the sidecar.
    fn handle_at_proxy(&mut self, forbidden: bool) -> HttpResponse {
        if !path::UNAUTHENTICATED.contains(&self.head.uri.path()) {
            if !self.is_authenticated() {
                return text(StatusCode::UNAUTHORIZED, "Unauthorized");
            }
            if forbidden {
                let verb = match self.head.method {
                    Method::POST => "create",
                    Method::DELETE => "delete",
                    _ => "get",
                };
                let resource = group::TASK_RESOURCE;
                let message =
                    format!("Forbidden (user=caller, verb={verb}, resource={resource}, subresource=)");
                return text(StatusCode::FORBIDDEN, &message);
            }
        }
        self.handle_at_sidecar()
    }

    fn is_authenticated(&self) -> bool {
        let header = self.head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::trim);
        token.filter(|token| !token.is_empty()).is_some_and(|token| {
            self.shared.with(|state| state.tokens.is_empty() || state.tokens.contains(token))
        })
    }

    /// Runs the sidecar's own handler.
    fn handle_at_sidecar(&mut self) -> HttpResponse {
        let path = self.head.uri.path().to_owned();
        let reads = matches!(self.head.method, Method::GET | Method::HEAD);
        if let Some(id) = script::task_id(&path) {
            return match self.head.method {
                Method::DELETE => self.delete(id),
                _ if reads => self.read(id),
                _ => not_allowed("DELETE, GET, HEAD"),
            };
        }
        match path.as_str() {
            path::TASKS if self.head.method == Method::POST => self.submit(),
            path::TASKS if reads => self.list(),
            path::TASKS => not_allowed("GET, HEAD, POST"),
            path::DRY_RUN if self.head.method == Method::POST => self.dry_run(),
            path::DRY_RUN => not_allowed("POST"),
            path::HEALTHZ | path::STARTUPZ if reads => {
                empty(if self.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE })
            }
            path::LIVEZ if reads => empty(StatusCode::OK),
            path::METRICS if reads => text(StatusCode::OK, ""),
            path::STATUS if reads => {
                let status = if self.is_ready() { SidecarState::Ready } else { SidecarState::Initializing };
                json(StatusCode::OK, &SidecarStatus { status })
            }
            path::NODE_ID if reads => json(StatusCode::OK, &NodeId { node_id: node_id(&self.node) }),
            _ if is_known_path(&path) => not_allowed("GET, HEAD"),
            _ => text(StatusCode::NOT_FOUND, "404 page not found"),
        }
    }

    fn is_ready(&self) -> bool {
        self.shared.with(|state| state.node(&self.node).ready)
    }

    fn submit(&mut self) -> HttpResponse {
        let Some(task) = self.task.take() else { return bad_request("invalid request body") };
        match self.shared.submit(&self.node, task) {
            Ok((id, submission)) => {
                self.shared.journal.update(self.index, |request| {
                    request.task_id = Some(id.clone());
                    request.submission = Some(submission);
                });
                json(StatusCode::CREATED, &SubmittedTask { id })
            }
            Err(message) => bad_request(&message),
        }
    }

    /// Checks a task like [`submit`](Self::submit), without executing it. Scripts for tasks do not apply: to reject one, script the
    /// response to [`path::DRY_RUN`].
    fn dry_run(&mut self) -> HttpResponse {
        let Some(task) = self.task.take() else { return bad_request("invalid request body") };
        let Some(task_type) = TaskType::from_name(&task.task_type) else {
            return bad_request(&format!("unknown task type: {}", task.task_type));
        };
        match params::validate(task_type, task.params.as_ref()) {
            Ok(()) => json(StatusCode::OK, &DryRunResult { valid: true, note: None }),
            Err(error) => json(StatusCode::UNPROCESSABLE_ENTITY, &ErrorBody { error }),
        }
    }

    fn list(&self) -> HttpResponse {
        let tasks: Vec<TaskResult> =
            self.shared.with(|state| state.node(&self.node).ledger.newest().into_iter().cloned().collect());
        json(StatusCode::OK, &tasks)
    }

    fn read(&self, id: &str) -> HttpResponse {
        match self.shared.task(&self.node, id) {
            Some(task) => json(StatusCode::OK, &task),
            None => unknown_task(),
        }
    }

    fn delete(&self, id: &str) -> HttpResponse {
        match self.shared.with(|state| state.node(&self.node).ledger.remove(id)) {
            true => empty(StatusCode::NO_CONTENT),
            false => unknown_task(),
        }
    }
}

/// Returns a stable node ID that is unique for the node.
pub(super) fn node_id(node: &NodeName) -> String {
    let digest = Sha256::digest(node.to_string());
    digest[..20].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_known_path(path: &str) -> bool {
    path::UNAUTHENTICATED.contains(&path) || [path::STATUS, path::NODE_ID].contains(&path)
}

/// Response of a TLS server to plain HTTP. (TLS to a plain HTTP server fails in the handshake already.)
fn wrong_transport() -> HttpResponse {
    let mut response = text(StatusCode::BAD_REQUEST, "Client sent an HTTP request to an HTTPS server.");
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn not_allowed(methods: &'static str) -> HttpResponse {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

fn unknown_task() -> HttpResponse {
    json(StatusCode::NOT_FOUND, &ErrorBody { error: "task not found".into() })
}

fn bad_request(message: &str) -> HttpResponse {
    json(StatusCode::BAD_REQUEST, &ErrorBody { error: message.into() })
}

fn json(code: StatusCode, body: &impl Serialize) -> HttpResponse {
    match serde_json::to_string(body) {
        Ok(text) => response(code, Some("application/json"), text + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn text(code: StatusCode, message: &str) -> HttpResponse {
    response(code, Some("text/plain; charset=utf-8"), format!("{message}\n"))
}

fn empty(code: StatusCode) -> HttpResponse {
    response(code, None, String::new())
}

fn response(code: StatusCode, content_type: Option<&'static str>, body: String) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}
