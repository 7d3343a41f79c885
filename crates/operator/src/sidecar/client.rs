//! Questions to one sidecar, each with a deadline, and what its answers mean.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::sei_node::Scheme;
use api::sidecar_wire::{ErrorBody, SubmittedTask, TaskRequest, TaskResult, path};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Response, client::conn::TrySendError};
use plan::node::{Health, SecretSight, Served, Submission, TaskSight, Transport};
use runtime::Key;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Pool, Target};
use super::former::Formers;
use super::token::Token;
use super::trouble::Trouble;
use super::trust::Trust;
use crate::settings::AddressTemplate;

/// How long each kind of question may take, with the connection.
const HEALTH_WITHIN: Duration = Duration::from_secs(2);
const GET_WITHIN: Duration = Duration::from_secs(15);
const SUBMIT_WITHIN: Duration = Duration::from_secs(30);

/// The longest answer that is read.
const MOST_BYTES: usize = 1024 * 1024;

/// The longest text of a sidecar that goes into a status. It is a sentence, or something that is worth its beginning.
const MOST_TEXT: usize = 1024;

/// Speaks to sidecars.
#[derive(Debug)]
pub struct Client {
    address: AddressTemplate,
    token: Token,
    pool: Pool,
    formers: Formers,
}

/// An answer, read to its end.
struct Answer {
    code: StatusCode,
    body: Bytes,
    certificate: Option<String>,
}

/// A question.
struct Question<'a> {
    method: Method,
    path: &'a str,
    body: Bytes,
    within: Duration,
    /// Whether a connection that was used before will do.
    reuse: bool,
    /// Whether a new connection is kept for the next question.
    keep: bool,
}

impl Client {
    /// A client that finds sidecars by a template, and shows them the token in a file.
    #[must_use]
    pub fn new(address: AddressTemplate, token_file: PathBuf) -> Self {
        let (token, pool, formers) = (Token::in_file(token_file), Pool::default(), Formers::default());
        Self { address, token, pool, formers }
    }

    /// Where a node's sidecar is, and how it is known. `secret` is the one that the transport names.
    pub(super) fn target(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretSight>,
    ) -> Result<Target, Trouble> {
        let address = self.address.of(node, to.address.as_deref()).ok_or(Trouble::NoAddress)?;
        let tls = match to.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                let name = to.secret.clone().unwrap_or_default();
                let trust = match secret {
                    Some(SecretSight::Found(secret)) => Trust::of(secret),
                    _ => None,
                };
                let trust = trust.ok_or_else(|| Trouble::NoTrust(name.clone()))?;
                let before = self.formers.of(&to.host, &address, &trust.of_secret(), Instant::now());
                let trust = trust.or_before(before);
                Some((name, Arc::new(trust)))
            }
        };
        Ok(Target { address, host: to.host.clone(), tls })
    }

    /// Lets go what is kept for a host.
    pub(super) fn forget(&self, host: &str) {
        self.pool.forget(host);
        self.formers.forget(host);
    }

    /// Whether it lets seid run.
    pub(super) async fn health(&self, to: &Target) -> Health {
        // Of a node at rest it is the only question.
        let question = Question { keep: false, ..get(path::HEALTHZ, HEALTH_WITHIN) };
        match self.ask(to, question).await {
            Ok(Answer { code: StatusCode::OK, .. }) => Health::Ready,
            Ok(Answer { code: StatusCode::SERVICE_UNAVAILABLE, .. }) => Health::NotReady,
            Ok(answer) => Health::Unreachable(refused(answer.code).to_string()),
            Err(trouble) => Health::Unreachable(trouble.to_string()),
        }
    }

    /// What has become of a task.
    pub(super) async fn task(&self, to: &Target, id: &str) -> TaskSight {
        let path = format!("{}/{id}", path::TASKS);
        let unreachable = |trouble: Trouble| TaskSight::Unreachable(trouble.to_string());
        match self.ask(to, get(&path, GET_WITHIN)).await {
            Ok(Answer { code: StatusCode::OK, body, .. }) => match read_result(&body, id) {
                Some(result) => TaskSight::Found(Box::new(result)),
                None => unreachable(Trouble::Nonsense),
            },
            Ok(Answer { code: StatusCode::NOT_FOUND, body, .. }) => {
                // Only a sidecar says so in JSON. What else may stand there knows no tasks, and losing one is no small matter.
                match serde_json::from_slice::<ErrorBody>(&body) {
                    Ok(_) => TaskSight::NotFound,
                    Err(_) => unreachable(Trouble::Code(StatusCode::NOT_FOUND.as_u16())),
                }
            }
            Ok(answer) => unreachable(refused(answer.code)),
            Err(trouble) => unreachable(trouble),
        }
    }

    /// Gives it a task.
    ///
    /// Only a refusal of the task itself is for good. 401 and 403 come from the proxy, not from the sidecar, and are about
    /// the operator: somebody who binds a role, or a token that was renewed, mends them while the task stays as it is.
    pub(super) async fn submit(&self, to: &Target, task: &TaskRequest) -> Submission {
        let unknown = |trouble: Trouble| Submission::Unknown(trouble.to_string());
        let Ok(body) = serde_json::to_vec(task) else { return unknown(Trouble::Nonsense) };
        let question = Question {
            method: Method::POST,
            path: path::TASKS,
            body: body.into(),
            within: SUBMIT_WITHIN,
            reuse: true,
            keep: true,
        };
        match self.ask(to, question).await {
            Ok(Answer {
                code: StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED, body, ..
            }) => {
                let taken = serde_json::from_slice::<SubmittedTask>(&body).ok();
                match taken.filter(|taken| task.id.as_ref().is_none_or(|id| *id == taken.id)) {
                    Some(_) => Submission::Taken,
                    None => unknown(Trouble::Nonsense),
                }
            }
            Ok(Answer {
                code:
                    code @ (StatusCode::BAD_REQUEST
                    | StatusCode::PAYLOAD_TOO_LARGE
                    | StatusCode::UNPROCESSABLE_ENTITY),
                body,
                ..
            }) => {
                let said = serde_json::from_slice::<ErrorBody>(&body).ok().map(|body| short(&body.error));
                let said = said.filter(|said| !said.is_empty());
                Submission::Rejected(said.unwrap_or_else(|| refused(code).to_string()))
            }
            Ok(answer) => unknown(refused(answer.code)),
            Err(trouble) => unknown(trouble),
        }
    }

    /// How it is served. Always asked over a new connection: one that was made before tells of before.
    pub(super) async fn served(&self, to: &Target) -> Served {
        let question = Question { reuse: false, ..get(path::HEALTHZ, HEALTH_WITHIN) };
        match (self.ask(to, question).await, &to.tls) {
            // What servers that wait for TLS say to a plain request.
            (Ok(Answer { code: StatusCode::BAD_REQUEST, .. }), None) => {
                Served::Otherwise(Trouble::NotPlain.to_string())
            }
            (Ok(_), None) => Served::As(Scheme::Http, None),
            (Ok(answer), Some(_)) => Served::As(Scheme::Https, answer.certificate),
            (Err(trouble), _) => Served::Otherwise(trouble.to_string()),
        }
    }

    async fn ask(&self, to: &Target, question: Question<'_>) -> Result<Answer, Trouble> {
        let late = Trouble::Late(question.within.as_secs());
        timeout(question.within, self.ask_with_token(to, &question)).await.unwrap_or(Err(late))
    }

    /// A token that was refused may have been replaced in the meantime; then the new one is shown, once. What was refused
    /// for its token was not done.
    async fn ask_with_token(&self, to: &Target, question: &Question<'_>) -> Result<Answer, Trouble> {
        let token = self.token.header()?;
        let answer = self.exchange(to, question, &token).await?;
        if answer.code != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        self.token.refused();
        let another = self.token.header()?;
        if another == token {
            return Ok(answer);
        }
        self.exchange(to, question, &another).await
    }

    /// Asks over a connection that was kept, or else over a new one. A kept one may have been closed by the other side
    /// without us knowing: what is certain not to have arrived is sent again, and so is what only reads.
    async fn exchange(
        &self,
        to: &Target,
        question: &Question<'_>,
        token: &HeaderValue,
    ) -> Result<Answer, Trouble> {
        let mut request = question.request(&to.host, token)?;
        if question.reuse
            && let Some(connection) = self.pool.take(to)
        {
            request = match self.send(to, connection, request, true).await {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::NotSent(request)) => *request,
                Err(Unanswered::Lost(Trouble::BrokeOff)) if question.method == Method::GET => {
                    question.request(&to.host, token)?
                }
                Err(Unanswered::Lost(trouble)) => return Err(trouble),
            };
        }
        let connection = Connection::to(to).await?;
        if let Some(certificate) = &connection.certificate {
            self.formers.served(&to.host, certificate);
        }
        self.send(to, connection, request, question.keep).await.map_err(|unanswered| match unanswered {
            Unanswered::NotSent(_) => Trouble::BrokeOff,
            Unanswered::Lost(trouble) => trouble,
        })
    }

    async fn send(
        &self,
        to: &Target,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        keep: bool,
    ) -> Result<Answer, Unanswered> {
        let response = connection.sender.try_send_request(request).await.map_err(Unanswered::from)?;
        let (code, body) = read(response).await.map_err(Unanswered::Lost)?;
        let certificate = connection.certificate.clone();
        if keep {
            self.pool.keep(to, connection);
        }
        Ok(Answer { code, body, certificate })
    }
}

/// Why there is no answer.
enum Unanswered {
    /// Nothing was sent.
    NotSent(Box<Request<Full<Bytes>>>),
    /// It may have arrived.
    Lost(Trouble),
}

impl From<TrySendError<Request<Full<Bytes>>>> for Unanswered {
    fn from(mut error: TrySendError<Request<Full<Bytes>>>) -> Self {
        match error.take_message() {
            Some(request) => Self::NotSent(Box::new(request)),
            None if error.error().is_parse() => Self::Lost(Trouble::Nonsense),
            None => Self::Lost(Trouble::BrokeOff),
        }
    }
}

impl Question<'_> {
    fn request(&self, host: &str, token: &HeaderValue) -> Result<Request<Full<Bytes>>, Trouble> {
        Request::builder()
            .method(&self.method)
            .uri(self.path)
            .header(header::HOST, host)
            .header(header::AUTHORIZATION, token)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(self.body.clone()))
            .map_err(|_| Trouble::Nonsense)
    }
}

fn get(path: &str, within: Duration) -> Question<'_> {
    Question { method: Method::GET, path, body: Bytes::new(), within, reuse: true, keep: true }
}

async fn read(response: Response<Incoming>) -> Result<(StatusCode, Bytes), Trouble> {
    let code = response.status();
    let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
    let body = body.map_err(|error| {
        if error.downcast_ref::<LengthLimitError>().is_some() { Trouble::TooLong } else { Trouble::BrokeOff }
    })?;
    Ok((code, body.to_bytes()))
}

fn read_result(body: &[u8], id: &str) -> Option<TaskResult> {
    let mut result: TaskResult = serde_json::from_slice(body).ok()?;
    result.error = result.error.as_deref().map(short);
    (result.id == id).then_some(result)
}

fn refused(code: StatusCode) -> Trouble {
    match code {
        StatusCode::UNAUTHORIZED => Trouble::Unauthorized,
        StatusCode::FORBIDDEN => Trouble::Forbidden,
        other => Trouble::Code(other.as_u16()),
    }
}

/// The beginning of a text that is too long for a status.
fn short(text: &str) -> String {
    let text = text.trim();
    if text.len() <= MOST_TEXT {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(MOST_TEXT)])
}
