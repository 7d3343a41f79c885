//! Handles one request and applies faults to it.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, UPGRADE, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};

use super::connection::Control;
use super::error_response::ErrorResponse;
use super::fault::{KillPoint, LostResponse, ResponseRewrite};
use super::forward;
use super::identity::{self, ClientIdentity};
use super::journal::{Journal, PendingEntry};
use super::kill::{BlockedRequest, PendingKill, PendingKills};
use super::request::{RequestInfo, Verb};
use super::rules::{Decision, Rule, Rules};
use super::upstream::Upstream;
use super::watches::Watches;

/// State shared by all requests.
pub(super) struct Shared {
    pub(super) upstream: Upstream,
    pub(super) journal: Journal,
    pub(super) rules: Rules,
    pub(super) watches: Arc<Watches>,
    pub(super) pending_kills: PendingKills,
}

/// Error of a response body.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

pub(super) type HttpResponse = Response<UnsyncBoxBody<Bytes, BodyError>>;

/// One request in progress.
pub(super) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) control: Arc<Control>,
    pub(super) identity: Option<ClientIdentity>,
    pub(super) head: Parts,
    pub(super) info: RequestInfo,
    pub(super) entry: PendingEntry,
}

/// Answers a request, or never returns because its connection is reset.
pub(super) async fn handle(
    shared: Arc<Shared>,
    control: Arc<Control>,
    identity: Option<ClientIdentity>,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    let agent = head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let user = identity::user(identity.as_ref(), &head.headers);
    let query = head.uri.query().unwrap_or_default();
    let info = RequestInfo::parse(&head.method, head.uri.path(), query, user, agent.into());
    // Checked first, so that a request the journal counts as pending is already blocked.
    let blocked = shared.pending_kills.block(&info);
    let entry = shared.journal.begin(info.clone());
    Exchange { shared, control, identity, head, info, entry }.run(body, blocked).await
}

impl Exchange {
    async fn run(mut self, body: Incoming, blocked: Option<BlockedRequest>) -> HttpResponse {
        // The journal must be complete: without it, nothing is served.
        if let Err(error) = self.shared.journal.check() {
            let error = ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR).message(error.to_string());
            return self.respond_with_error(&error);
        }
        if self.head.headers.contains_key(UPGRADE) {
            let message = "the fault proxy does not support upgrades: use the address of the API server";
            return self
                .respond_with_error(&ErrorResponse::new(StatusCode::NOT_IMPLEMENTED).message(message));
        }
        if let Some(blocked) = blocked {
            blocked.released().await;
            self.entry.faults(["sent while its client was being killed".to_owned()]);
            return self.reset().await;
        }
        let plan = self.shared.rules.plan(&self.info);
        self.entry.faults(plan.names);
        match plan.decision {
            None => {
                pause(plan.delay).await;
                let response = self.forward(body, plan.response_delay).await;
                self.respond(response).await
            }
            Some((rule, Decision::Reset)) => {
                pause(plan.delay).await;
                rule.fire();
                self.reset().await
            }
            Some((rule, Decision::Respond(error))) => {
                pause(plan.delay).await;
                rule.fire();
                self.respond_with_error(&error)
            }
            Some((rule, Decision::RewriteResponse(rewrite))) => {
                pause(plan.delay).await;
                let response = self.forward(body, plan.response_delay).await;
                let response = match response {
                    Some(response) => self.rewrite(response, &rewrite).await,
                    None => None,
                };
                rule.fire();
                self.respond(response).await
            }
            Some((rule, Decision::LoseResponse(loss))) => {
                pause(plan.delay).await;
                self.lose_response(body, plan.response_delay, &rule, loss).await
            }
            Some((rule, Decision::Kill(kill))) => {
                // Registered before any delay: requests that the client sends meanwhile must not get through.
                let kill = self.shared.pending_kills.begin(&self.info, rule, kill);
                pause(plan.delay).await;
                self.kill(body, plan.response_delay, kill).await
            }
        }
    }

    /// Rewrites a response; `None` if it is not JSON.
    async fn rewrite(&mut self, response: HttpResponse, rewrite: &ResponseRewrite) -> Option<HttpResponse> {
        let (mut head, body) = response.into_parts();
        let parsed = match body.collect().await {
            Ok(whole) => serde_json::from_slice(&whole.to_bytes()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match parsed {
            Ok(mut document) => {
                (rewrite.0)(&mut document);
                head.headers.remove(CONTENT_LENGTH);
                let body = Full::new(Bytes::from(document.to_string()));
                Some(Response::from_parts(head, body.map_err(|never| match never {}).boxed_unsync()))
            }
            Err(why) => {
                self.entry.failure(format!("rewriting a response: {why}"));
                None
            }
        }
    }

    async fn lose_response(
        mut self,
        body: Incoming,
        delay: Duration,
        rule: &Rule,
        loss: LostResponse,
    ) -> HttpResponse {
        // Without a response from the API server there is nothing to lose.
        match self.forward(body, delay).await {
            Some(response) => self.drain(response).await,
            None => return self.reset().await,
        }
        rule.fire();
        match loss {
            LostResponse::Reset => self.reset().await,
            LostResponse::GatewayTimeout => {
                let error = ErrorResponse::new(StatusCode::GATEWAY_TIMEOUT).message("response lost");
                self.respond_with_error(&error)
            }
        }
    }

    async fn kill(mut self, body: Incoming, delay: Duration, kill: PendingKill) -> HttpResponse {
        let kill_point = kill.kill_point();
        let response = match kill_point {
            KillPoint::BeforeForwarding => None,
            KillPoint::BeforeResponse | KillPoint::AfterResponse => self.forward(body, delay).await,
        };
        if kill_point != KillPoint::AfterResponse {
            if let Some(response) = response {
                self.drain(response).await;
            }
            self.control.kill_on_close(kill);
            return self.reset().await;
        }
        self.control.kill_on_close(kill);
        // Close the connection after the response: when it has ended, the client has received the response.
        let mut response = self.respond(response).await;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// Sends the API server's response to the client. Without one, the client sees the same as without a proxy: a
    /// broken connection.
    async fn respond(self, response: Option<HttpResponse>) -> HttpResponse {
        match response {
            Some(response) => {
                self.entry.close(Some(response.status()));
                response
            }
            None => self.reset().await,
        }
    }

    /// Reads a discarded response to the end. Closing the connection early would make the API server log a failure
    /// for a write that it has completed.
    async fn drain(&self, response: HttpResponse) {
        if self.info.verb != Verb::Watch {
            // The response is discarded anyway.
            let _ = response.into_body().collect().await;
        }
    }

    fn respond_with_error(self, error: &ErrorResponse) -> HttpResponse {
        self.entry.close(Some(error.code()));
        forward::error_response(error)
    }

    async fn reset(self) -> HttpResponse {
        self.entry.close(None);
        match self.control.reset().await {}
    }
}

/// Sleeps, except for a zero duration, which would still yield.
pub(super) async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
