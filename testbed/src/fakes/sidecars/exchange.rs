//! One request and its answer: first what the proxy has to say, then what the sidecar does.

use std::sync::Arc;
use std::time::SystemTime;

use api::names::group;
use api::sidecar_wire::{
    ErrorBody, NodeId, SidecarState, SidecarStatus, SubmittedTask, TaskRequest, TaskResult, path,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::connection::Control;
use super::journal;
use super::name::NodeName;
use super::script::{self, Asked, Trouble};
use super::state::Shared;

pub(super) type Answer = Response<Full<Bytes>>;

/// More than any task needs.
const LONGEST_BODY: usize = 1 << 20;

/// Answers a request that came over a connection which, if by TLS, was made to `named`.
pub(super) async fn answer(
    shared: Arc<Shared>,
    control: Arc<Control>,
    named: Option<NodeName>,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let Some(node) = node_of(&head).filter(|node| named.as_ref().is_none_or(|named| named == node)) else {
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "no node has this host name, or another has this connection",
        );
    };
    let transport = shared.with(|world| {
        world.is_there(&node).then(|| {
            let one = world.node(&node);
            one.asked_over(&control);
            one.transport.is_tls()
        })
    });
    match transport {
        None => match control.reset().await {},
        Some(tls) if tls != named.is_some() => return wrong_transport(),
        Some(_) => {}
    }
    let Ok(body) = Limited::new(body, LONGEST_BODY).collect().await else {
        return refusal("invalid request body");
    };
    Exchange::begin(shared, control, node, named.is_some(), head, &body.to_bytes()).run().await
}

fn node_of(head: &Parts) -> Option<NodeName> {
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    NodeName::of_host(host.or_else(|| head.uri.host())?)
}

/// One request to one node.
struct Exchange {
    shared: Arc<Shared>,
    control: Arc<Control>,
    node: NodeName,
    head: Parts,
    /// The task to be given, if the body says one.
    task: Option<TaskRequest>,
    /// Where the request stands in the journal.
    place: usize,
    trouble: Option<Trouble>,
}

impl Exchange {
    /// Writes the request down and sees what was scripted for it.
    fn begin(
        shared: Arc<Shared>,
        control: Arc<Control>,
        node: NodeName,
        tls: bool,
        head: Parts,
        body: &[u8],
    ) -> Self {
        // What follows the first value is ignored, as by the real one.
        let task = TaskRequest::deserialize(&mut serde_json::Deserializer::from_slice(body)).ok();
        let task = task.filter(|_| head.method == Method::POST);
        let read = script::task_id(head.uri.path());
        let task_id = task.as_ref().and_then(|task| task.id.clone()).or_else(|| read.map(str::to_owned));
        let known = read.and_then(|id| shared.task(&node, id)).map(|task| task.task_type);
        let task_type = task.as_ref().map(|task| task.task_type.clone()).or(known);
        let asked = Asked {
            node: &node,
            method: &head.method,
            path: head.uri.path(),
            task_type: task_type.as_deref(),
        };
        let trouble = shared.with(|world| world.scripts.trouble(&asked));
        let place = shared.journal.push(journal::Request {
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
        Self { shared, control, node, head, task, place, trouble }
    }

    async fn run(mut self) -> Answer {
        let answer = match self.trouble.take() {
            None => self.guarded(false),
            Some(Trouble::Forbidden) => self.guarded(true),
            Some(Trouble::Answer(code, message)) => text(code, &message),
            Some(Trouble::Late(time)) => {
                let answer = self.guarded(false);
                tokio::time::sleep(time).await;
                answer
            }
            Some(Trouble::LoseAnswer) => {
                self.guarded(false);
                match self.control.reset().await {}
            }
            Some(Trouble::Hang) => std::future::pending().await,
            Some(Trouble::Away) => match self.control.reset().await {},
        };
        self.shared.journal.amend(self.place, |request| request.answer = Some(answer.status()));
        answer
    }

    /// What the proxy does.
    fn guarded(&mut self, forbidden: bool) -> Answer {
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
        self.routed()
    }

    fn is_authenticated(&self) -> bool {
        let given = self.head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|given| given.strip_prefix("Bearer ")).map(str::trim);
        token.filter(|token| !token.is_empty()).is_some_and(|token| {
            self.shared.with(|world| world.tokens.is_empty() || world.tokens.contains(token))
        })
    }

    /// What the sidecar does.
    fn routed(&mut self) -> Answer {
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
            _ if known(&path) => not_allowed("GET, HEAD"),
            _ => text(StatusCode::NOT_FOUND, "404 page not found"),
        }
    }

    fn is_ready(&self) -> bool {
        self.shared.with(|world| world.node(&self.node).ready)
    }

    fn submit(&mut self) -> Answer {
        let Some(task) = self.task.take() else { return refusal("invalid request body") };
        match self.shared.submit(&self.node, task) {
            Ok((id, submission)) => {
                self.shared.journal.amend(self.place, |request| {
                    request.task_id = Some(id.clone());
                    request.submission = Some(submission);
                });
                json(StatusCode::CREATED, &SubmittedTask { id })
            }
            Err(message) => refusal(&message),
        }
    }

    fn list(&self) -> Answer {
        let tasks: Vec<TaskResult> =
            self.shared.with(|world| world.node(&self.node).ledger.newest().into_iter().cloned().collect());
        json(StatusCode::OK, &tasks)
    }

    fn read(&self, id: &str) -> Answer {
        match self.shared.task(&self.node, id) {
            Some(task) => json(StatusCode::OK, &task),
            None => unknown_task(),
        }
    }

    fn delete(&self, id: &str) -> Answer {
        match self.shared.with(|world| world.node(&self.node).ledger.remove(id)) {
            true => empty(StatusCode::NO_CONTENT),
            false => unknown_task(),
        }
    }
}

/// Always the same for the same node, and never that of another.
pub(super) fn node_id(node: &NodeName) -> String {
    let digest = Sha256::digest(node.to_string());
    digest[..20].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(path: &str) -> bool {
    path::UNAUTHENTICATED.contains(&path) || [path::STATUS, path::NODE_ID].contains(&path)
}

/// What a TLS server says to who speaks plain HTTP. (Who speaks TLS to one in the clear does not come that far.)
fn wrong_transport() -> Answer {
    let mut answer = text(StatusCode::BAD_REQUEST, "Client sent an HTTP request to an HTTPS server.");
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    answer
}

fn unknown_task() -> Answer {
    json(StatusCode::NOT_FOUND, &ErrorBody { error: "task not found".into() })
}

fn refusal(message: &str) -> Answer {
    json(StatusCode::BAD_REQUEST, &ErrorBody { error: message.into() })
}

fn json(code: StatusCode, body: &impl Serialize) -> Answer {
    match serde_json::to_string(body) {
        Ok(text) => answer_of(code, Some("application/json"), text + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn text(code: StatusCode, message: &str) -> Answer {
    answer_of(code, Some("text/plain; charset=utf-8"), format!("{message}\n"))
}

fn empty(code: StatusCode) -> Answer {
    answer_of(code, None, String::new())
}

fn answer_of(code: StatusCode, content_type: Option<&'static str>, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = code;
    if let Some(content_type) = content_type {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    answer
}
