//! One request from its coming to its answer, and the faults on its way.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, UPGRADE, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};

use super::connection::Control;
use super::execution::{Execution, Executions, Gate};
use super::fault::{Alteration, Loss, Moment};
use super::forward;
use super::identity::{self, Holder};
use super::journal::{Journal, Open};
use super::refusal::Refusal;
use super::request::{Asked, Verb};
use super::rules::{Decision, Rule, Rules};
use super::upstream::Upstream;
use super::watches::Watches;

/// What all requests have in common.
pub(super) struct Shared {
    pub(super) upstream: Upstream,
    pub(super) journal: Journal,
    pub(super) rules: Rules,
    pub(super) watches: Arc<Watches>,
    pub(super) executions: Executions,
}

/// Why a body cannot be given to its end.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

/// One request on its way.
pub(super) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) control: Arc<Control>,
    pub(super) holder: Option<Holder>,
    pub(super) head: Parts,
    pub(super) asked: Asked,
    pub(super) entry: Open,
}

/// Answers a request, or never returns because its connection is reset.
pub(super) async fn handle(
    shared: Arc<Shared>,
    control: Arc<Control>,
    holder: Option<Holder>,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let agent = head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let user = identity::user(holder.as_ref(), &head.headers);
    let query = head.uri.query().unwrap_or_default();
    let asked = Asked::read(&head.method, head.uri.path(), query, user, agent.into());
    // Looked for first: a request that the journal knows of as pending has met its gate.
    let gate = shared.executions.gate(&asked);
    let entry = shared.journal.begin(asked.clone());
    Exchange { shared, control, holder, head, asked, entry }.run(body, gate).await
}

impl Exchange {
    async fn run(mut self, body: Incoming, gate: Option<Gate>) -> Answer {
        // Who reads the journal must be able to rely on it: without one, nothing is served.
        if let Err(error) = self.shared.journal.check() {
            let refusal = Refusal::of(StatusCode::INTERNAL_SERVER_ERROR).message(error.to_string());
            return self.refuse(&refusal);
        }
        if self.head.headers.contains_key(UPGRADE) {
            let message = "the fault proxy does not pass on upgrades: use the API server's own address";
            return self.refuse(&Refusal::of(StatusCode::NOT_IMPLEMENTED).message(message));
        }
        if let Some(gate) = gate {
            gate.opened().await;
            self.entry.faults(["asked while its client was being killed".to_owned()]);
            return self.reset().await;
        }
        let plan = self.shared.rules.plan(&self.asked);
        self.entry.faults(plan.names);
        match plan.decision {
            None => {
                pause(plan.delay).await;
                let answer = self.forward(body, plan.answer_delay).await;
                self.pass_on(answer).await
            }
            Some((rule, Decision::Reset)) => {
                pause(plan.delay).await;
                rule.fire();
                self.reset().await
            }
            Some((rule, Decision::Answer(refusal))) => {
                pause(plan.delay).await;
                rule.fire();
                self.refuse(&refusal)
            }
            Some((rule, Decision::Alter(alteration))) => {
                pause(plan.delay).await;
                let answer = self.forward(body, plan.answer_delay).await;
                let answer = match answer {
                    Some(answer) => self.alter(answer, &alteration).await,
                    None => None,
                };
                rule.fire();
                self.pass_on(answer).await
            }
            Some((rule, Decision::LoseAnswer(loss))) => {
                pause(plan.delay).await;
                self.lose_answer(body, plan.answer_delay, &rule, loss).await
            }
            Some((rule, Decision::Kill(kill))) => {
                // Condemned before any delay: what the client asks meanwhile must not get through.
                let execution = self.shared.executions.condemn(&self.asked, rule, kill);
                pause(plan.delay).await;
                self.kill(body, plan.answer_delay, execution).await
            }
        }
    }

    /// Changes an answer; nothing when it is no JSON.
    async fn alter(&mut self, answer: Answer, alteration: &Alteration) -> Option<Answer> {
        let (mut head, body) = answer.into_parts();
        let altered = match body.collect().await {
            Ok(whole) => serde_json::from_slice(&whole.to_bytes()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match altered {
            Ok(mut document) => {
                (alteration.0)(&mut document);
                head.headers.remove(CONTENT_LENGTH);
                let body = Full::new(Bytes::from(document.to_string()));
                Some(Response::from_parts(head, body.map_err(|never| match never {}).boxed_unsync()))
            }
            Err(why) => {
                self.entry.failure(format!("altering an answer: {why}"));
                None
            }
        }
    }

    async fn lose_answer(mut self, body: Incoming, keep_back: Duration, rule: &Rule, loss: Loss) -> Answer {
        // A request that the API server never answered has no answer that could be lost.
        match self.forward(body, keep_back).await {
            Some(answer) => self.let_end(answer).await,
            None => return self.reset().await,
        }
        rule.fire();
        match loss {
            Loss::Reset => self.reset().await,
            Loss::GatewayTimeout => {
                let refusal =
                    Refusal::of(StatusCode::GATEWAY_TIMEOUT).message("the answer was lost on its way");
                self.refuse(&refusal)
            }
        }
    }

    async fn kill(mut self, body: Incoming, keep_back: Duration, execution: Execution) -> Answer {
        let moment = execution.moment();
        let answer = match moment {
            Moment::BeforeForwarding => None,
            Moment::BeforeAnswer | Moment::AfterAnswer => self.forward(body, keep_back).await,
        };
        if moment != Moment::AfterAnswer {
            if let Some(answer) = answer {
                self.let_end(answer).await;
            }
            self.control.kill_at_the_end(execution);
            return self.reset().await;
        }
        self.control.kill_at_the_end(execution);
        // The connection is closed behind the answer: when it has ended, the answer is with the client.
        let mut answer = self.pass_on(answer).await;
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    }

    /// Gives the client the API server's answer. Where there is none it sees what it would have seen without a proxy: a
    /// connection that broke.
    async fn pass_on(self, answer: Option<Answer>) -> Answer {
        match answer {
            Some(answer) => {
                self.entry.close(Some(answer.status()));
                answer
            }
            None => self.reset().await,
        }
    }

    /// Reads an answer that nobody hears to its end. Left half read, its connection would be closed, and an API server that
    /// has just done what it was asked would log that it had not.
    async fn let_end(&self, answer: Answer) {
        if self.asked.verb != Verb::Watch {
            // What is lost was to be lost.
            let _ = answer.into_body().collect().await;
        }
    }

    fn refuse(self, refusal: &Refusal) -> Answer {
        self.entry.close(Some(refusal.code()));
        forward::own(refusal)
    }

    async fn reset(self) -> Answer {
        self.entry.close(None);
        match self.control.reset().await {}
    }
}

/// Waits, but not for nothing: even a wait of no time gives others the turn.
pub(super) async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
