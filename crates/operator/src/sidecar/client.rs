//! HTTP client of the sidecar API. Every request has a timeout.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::names::object;
use api::sei_node::Scheme;
use api::sidecar_wire::{
    APP_HASH_AT, DryRunResult, ErrorBody, SubmittedTask, TASK_KIND_HEADER, TaskRequest, path,
};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Response, client::conn::TrySendError};
use plan::node::{
    ChainObservation, DryRunObservation, Health, SecretObservation, ServingObservation, Submission,
    TaskObservation, Transport,
};
use runtime::Key;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Credential, Endpoint, Pool};
use super::error::CallError;
use super::legacy_token::LegacyToken;
use super::previous_certificates::PreviousCertificates;
use super::response::{parse_chain, parse_error, parse_task, status_error};
use super::token::TokenSource;
use super::verifier::ServerVerifier;
use crate::settings::AddressTemplate;

/// The timeout of each kind of request, including the connection.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
/// The sidecar answers within a second.
const CHAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// The sidecar answers within three seconds.
const DRY_RUN_TIMEOUT: Duration = Duration::from_secs(5);
const GET_TIMEOUT: Duration = Duration::from_secs(15);
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest response body that is read.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A client of all sidecars.
pub struct Client {
    address: AddressTemplate,
    tokens: TokenSource,
    legacy_token: Option<LegacyToken>,
    /// Gets the Secret whose certificate a sidecar does not serve.
    on_mismatch: Box<dyn Fn(&Key) + Send + Sync>,
    pool: Pool,
    previous_certificates: PreviousCertificates,
}

/// A response that was read completely.
struct SidecarResponse {
    status: StatusCode,
    body: Bytes,
    /// With TLS: the SHA-256 of the server certificate.
    certificate: Option<String>,
}

/// A request that can be sent more than once.
struct RequestSpec<'a> {
    method: Method,
    path: &'a str,
    body: Bytes,
    /// The type of the submitted task, by which the proxy authorizes the request.
    task_type: Option<&'a str>,
    timeout: Duration,
    /// Whether an idle connection may be reused.
    reuse: bool,
    /// Whether a new connection is returned to the pool.
    keep: bool,
}

impl Client {
    /// Creates a client that derives addresses from a template. `legacy_token_file` has the token for pods that were set up by another
    /// operator or a previous version. `on_mismatch` gets the Secret whose certificate a sidecar does not serve: it may have been
    /// replaced since it was read.
    #[must_use]
    pub fn new(
        address: AddressTemplate,
        tokens: TokenSource,
        legacy_token_file: Option<PathBuf>,
        on_mismatch: impl Fn(&Key) + Send + Sync + 'static,
    ) -> Self {
        Self {
            address,
            tokens,
            legacy_token: legacy_token_file.map(LegacyToken::new),
            on_mismatch: Box::new(on_mismatch),
            pool: Pool::default(),
            previous_certificates: PreviousCertificates::default(),
        }
    }

    /// Returns the endpoint of a node's sidecar. `secret` is the Secret that the transport names.
    pub(super) fn endpoint(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
    ) -> Result<Endpoint, CallError> {
        let address = self.address.render(node, to.address.as_deref()).ok_or(CallError::NoPodIp)?;
        let tls = match to.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                let name = to.secret.clone().unwrap_or_default();
                let verifier = match secret {
                    Some(SecretObservation::Found(found)) => ServerVerifier::from_secret(&found.secret),
                    _ => None,
                };
                let verifier = verifier.ok_or_else(|| CallError::NoCertificate(name.clone()))?;
                let current = verifier.leaf_sha256();
                let previous =
                    self.previous_certificates.update(&to.host, &address, &current, Instant::now());
                let secret = Key { namespace: node.namespace.clone(), name };
                Some((secret, Arc::new(verifier.accepting_previous(previous))))
            }
        };
        let credential = match &to.audience {
            None => Credential::Legacy,
            // A client that can edit the pod must not get a token that is valid elsewhere, such as at the API server.
            Some(audience) if *audience != object::sidecar_audience(&node.name, &node.namespace) => {
                Credential::ForeignAudience
            }
            Some(audience) => Credential::Audience(audience.clone()),
        };
        Ok(Endpoint { address, host: to.host.clone(), tls, credential })
    }

    /// Drops what is kept for a node.
    pub(super) fn forget(&self, node: &Key) {
        let host = object::pod_host(&node.name, &node.namespace);
        self.pool.forget(&host);
        self.previous_certificates.forget(&host);
        self.tokens.forget(&object::sidecar_audience(&node.name, &node.namespace));
    }

    /// Probes whether the sidecar lets seid run.
    pub(super) async fn probe_health(&self, to: &Endpoint) -> Health {
        // The connection is not kept: a converged node sends no other request.
        let request = RequestSpec { keep: false, ..RequestSpec::get(path::HEALTHZ, HEALTH_TIMEOUT) };
        match self.send(to, request).await {
            Ok(SidecarResponse { status: StatusCode::OK, .. }) => Health::Ready,
            Ok(SidecarResponse { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => Health::NotReady,
            Ok(response) => Health::Unreachable(status_error(response.status).to_string()),
            Err(error) => Health::Unreachable(error.to_string()),
        }
    }

    /// Reads the state of a task.
    pub(super) async fn get_task(&self, to: &Endpoint, id: &str) -> TaskObservation {
        let path = format!("{}/{id}", path::TASKS);
        let unreachable = |error: CallError| TaskObservation::Unreachable(error.to_string());
        match self.send(to, RequestSpec::get(&path, GET_TIMEOUT)).await {
            Ok(SidecarResponse { status: StatusCode::OK, body, .. }) => match parse_task(&body, id) {
                Some(result) => TaskObservation::Found(Box::new(result)),
                None => unreachable(CallError::MalformedResponse),
            },
            Ok(SidecarResponse { status: StatusCode::NOT_FOUND, body, .. }) => {
                // Only a sidecar returns 404 with a JSON body. Another server must not make a task look lost.
                match serde_json::from_slice::<ErrorBody>(&body) {
                    Ok(_) => TaskObservation::NotFound,
                    Err(_) => unreachable(CallError::Status(StatusCode::NOT_FOUND.as_u16())),
                }
            }
            Ok(response) => unreachable(status_error(response.status)),
            Err(error) => unreachable(error),
        }
    }

    /// Submits a task.
    ///
    /// Only a rejection of the task itself is final. 401 and 403 come from the proxy and concern the operator: a role binding
    /// or a rotated token fixes them without a change of the task.
    pub(super) async fn submit_task(&self, to: &Endpoint, task: &TaskRequest) -> Submission {
        let unknown = |error: CallError| Submission::Unknown(error.to_string());
        let Ok(body) = serde_json::to_vec(task) else { return unknown(CallError::MalformedResponse) };
        let request = RequestSpec {
            method: Method::POST,
            path: path::TASKS,
            body: body.into(),
            task_type: Some(&task.task_type),
            timeout: SUBMIT_TIMEOUT,
            reuse: true,
            keep: true,
        };
        match self.send(to, request).await {
            Ok(SidecarResponse {
                status: StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED,
                body,
                ..
            }) => {
                let accepted = serde_json::from_slice::<SubmittedTask>(&body).ok();
                match accepted.filter(|accepted| task.id.as_ref().is_none_or(|id| *id == accepted.id)) {
                    Some(_) => Submission::Accepted,
                    None => unknown(CallError::MalformedResponse),
                }
            }
            Ok(SidecarResponse {
                status:
                    status @ (StatusCode::BAD_REQUEST
                    | StatusCode::PAYLOAD_TOO_LARGE
                    | StatusCode::UNPROCESSABLE_ENTITY),
                body,
                ..
            }) => Submission::Rejected(parse_error(status, &body)),
            Ok(response) => unknown(status_error(response.status)),
            Err(error) => unknown(error),
        }
    }

    /// Probes the scheme and the certificate that the sidecar serves. Always uses a new connection: an existing one shows
    /// what was served when it was opened.
    pub(super) async fn probe_serving(&self, to: &Endpoint) -> ServingObservation {
        let request = RequestSpec { reuse: false, ..RequestSpec::get(path::HEALTHZ, HEALTH_TIMEOUT) };
        match (self.send(to, request).await, &to.tls) {
            // The response of a TLS server to a plain HTTP request.
            (Ok(SidecarResponse { status: StatusCode::BAD_REQUEST, .. }), None) => {
                ServingObservation::Mismatch(CallError::NotPlainHttp.to_string())
            }
            (Ok(_), None) => ServingObservation::Serving(Scheme::Http, None),
            (Ok(response), Some(_)) => ServingObservation::Serving(Scheme::Https, response.certificate),
            (Err(error), _) => ServingObservation::Mismatch(error.to_string()),
        }
    }

    /// Reads the state of the chain, and the app hash after the block at `app_hash_at`.
    pub(super) async fn get_chain(&self, to: &Endpoint, app_hash_at: Option<i64>) -> ChainObservation {
        let query = app_hash_at.map(|height| format!("?{APP_HASH_AT}={height}")).unwrap_or_default();
        let path = format!("{}{query}", path::CHAIN);
        let unavailable = |error: CallError| ChainObservation::Unavailable(error.to_string());
        // The connection is not kept, as for the health.
        let request = RequestSpec { keep: false, ..RequestSpec::get(&path, CHAIN_TIMEOUT) };
        match self.send(to, request).await {
            Ok(SidecarResponse { status: StatusCode::OK, body, .. }) => match parse_chain(&body, app_hash_at)
            {
                Some(status) => ChainObservation::Found(Box::new(status)),
                None => unavailable(CallError::MalformedResponse),
            },
            // A sidecar without this path.
            Ok(SidecarResponse { status: StatusCode::NOT_FOUND, .. }) => ChainObservation::NotSupported,
            Ok(SidecarResponse { status: status @ StatusCode::SERVICE_UNAVAILABLE, body, .. }) => {
                ChainObservation::Unavailable(parse_error(status, &body))
            }
            Ok(response) => unavailable(status_error(response.status)),
            Err(error) => unavailable(error),
        }
    }

    /// Asks whether a task would succeed. Nothing is executed: a sidecar without dry-runs does not know the path.
    pub(super) async fn dry_run(&self, to: &Endpoint, task: &TaskRequest) -> DryRunObservation {
        let unavailable = |error: CallError| DryRunObservation::Unavailable(error.to_string());
        let Ok(body) = serde_json::to_vec(task) else { return unavailable(CallError::MalformedResponse) };
        let request = RequestSpec {
            method: Method::POST,
            path: path::DRY_RUN,
            body: body.into(),
            task_type: Some(&task.task_type),
            timeout: DRY_RUN_TIMEOUT,
            // The sidecar may have closed an idle connection, and a POST is not sent again: the check would be skipped.
            reuse: false,
            keep: false,
        };
        match self.send(to, request).await {
            Ok(SidecarResponse { status: StatusCode::OK, body, .. }) => {
                match serde_json::from_slice::<DryRunResult>(&body) {
                    Ok(DryRunResult { valid: true, .. }) => DryRunObservation::Valid,
                    _ => unavailable(CallError::MalformedResponse),
                }
            }
            // Only a sidecar returns 422 with a JSON body. Another server must not reject a configuration.
            Ok(SidecarResponse { status: status @ StatusCode::UNPROCESSABLE_ENTITY, body, .. })
                if serde_json::from_slice::<ErrorBody>(&body).is_ok() =>
            {
                DryRunObservation::Rejected(parse_error(status, &body))
            }
            Ok(SidecarResponse { status: StatusCode::NOT_FOUND, .. }) => DryRunObservation::NotSupported,
            Ok(response) => unavailable(status_error(response.status)),
            Err(error) => unavailable(error),
        }
    }

    async fn send(&self, to: &Endpoint, request: RequestSpec<'_>) -> Result<SidecarResponse, CallError> {
        let timed_out = CallError::Timeout(request.timeout.as_secs());
        timeout(request.timeout, self.send_with_token(to, &request)).await.unwrap_or(Err(timed_out))
    }

    /// Sends a request, with a token if its path needs one. If the token is rejected and there is a newer one by now, retries once: a
    /// request that was rejected for its token had no effect.
    async fn send_with_token(
        &self,
        to: &Endpoint,
        request: &RequestSpec<'_>,
    ) -> Result<SidecarResponse, CallError> {
        if path::UNAUTHENTICATED.contains(&request.path) {
            return self.send_or_reconnect(to, request, None).await;
        }
        let token = self.authorization(to).await?;
        let response = self.send_or_reconnect(to, request, Some(&token)).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match (&to.credential, &self.legacy_token) {
            (Credential::Audience(audience), _) => self.tokens.invalidate(audience, &token),
            (Credential::Legacy, Some(legacy)) => legacy.invalidate(),
            _ => {}
        }
        let newer = self.authorization(to).await?;
        if newer == token {
            return Ok(response);
        }
        self.send_or_reconnect(to, request, Some(&newer)).await
    }

    /// Returns the value of the Authorization header.
    async fn authorization(&self, to: &Endpoint) -> Result<HeaderValue, CallError> {
        match &to.credential {
            Credential::Audience(audience) => self.tokens.authorization(audience).await,
            Credential::ForeignAudience => Err(CallError::ForeignAudience),
            Credential::Legacy => self.legacy_token.as_ref().ok_or(CallError::LegacyPod)?.authorization(),
        }
    }

    /// Sends a request over an idle connection, or else over a new one. The sidecar may have closed an idle connection
    /// unnoticed: a request that was certainly not delivered is sent again, and so is one that only reads.
    async fn send_or_reconnect(
        &self,
        to: &Endpoint,
        spec: &RequestSpec<'_>,
        token: Option<&HeaderValue>,
    ) -> Result<SidecarResponse, CallError> {
        let mut request = spec.build(to, token)?;
        if spec.reuse
            && let Some(connection) = self.pool.take(to)
        {
            request = match self.send_on(to, connection, request, true).await {
                Ok(response) => return Ok(response),
                Err(SendError::NotSent(request)) => *request,
                Err(SendError::NoResponse(CallError::ConnectionClosed)) if spec.method == Method::GET => {
                    spec.build(to, token)?
                }
                Err(SendError::NoResponse(error)) => return Err(error),
            };
        }
        let connection = Connection::open(to).await.inspect_err(|error| {
            if let (CallError::UntrustedCertificate(_), Some((secret, _))) = (error, &to.tls) {
                (self.on_mismatch)(secret);
            }
        })?;
        if let Some(certificate) = &connection.certificate {
            self.previous_certificates.record_served(&to.host, certificate);
        }
        self.send_on(to, connection, request, spec.keep).await.map_err(|error| match error {
            SendError::NotSent(_) => CallError::ConnectionClosed,
            SendError::NoResponse(error) => error,
        })
    }

    async fn send_on(
        &self,
        to: &Endpoint,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        keep: bool,
    ) -> Result<SidecarResponse, SendError> {
        let response = connection.sender.try_send_request(request).await.map_err(SendError::from)?;
        let (status, body) = read(response).await.map_err(SendError::NoResponse)?;
        let certificate = connection.certificate.clone();
        if keep {
            self.pool.put(to, connection);
        }
        Ok(SidecarResponse { status, body, certificate })
    }
}

/// Why a request has no response.
enum SendError {
    /// Nothing was sent.
    NotSent(Box<Request<Full<Bytes>>>),
    /// The request may have been delivered.
    NoResponse(CallError),
}

impl From<TrySendError<Request<Full<Bytes>>>> for SendError {
    fn from(mut error: TrySendError<Request<Full<Bytes>>>) -> Self {
        match error.take_message() {
            Some(request) => Self::NotSent(Box::new(request)),
            None if error.error().is_parse() => Self::NoResponse(CallError::MalformedResponse),
            None => Self::NoResponse(CallError::ConnectionClosed),
        }
    }
}

impl<'a> RequestSpec<'a> {
    fn get(path: &'a str, timeout: Duration) -> Self {
        let (method, body) = (Method::GET, Bytes::new());
        Self { method, path, body, task_type: None, timeout, reuse: true, keep: true }
    }

    fn build(&self, to: &Endpoint, token: Option<&HeaderValue>) -> Result<Request<Full<Bytes>>, CallError> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(self.path)
            .header(header::HOST, &to.host)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        // The proxies of pods with an audience authorize by it, or ignore it with the sidecar of upstream. Others do not know it.
        if let (Some(task_type), Credential::Audience(_)) = (self.task_type, &to.credential) {
            request = request.header(TASK_KIND_HEADER, task_type);
        }
        request.body(Full::new(self.body.clone())).map_err(|_| CallError::MalformedResponse)
    }
}

async fn read(response: Response<Incoming>) -> Result<(StatusCode, Bytes), CallError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| {
        if error.downcast_ref::<LengthLimitError>().is_some() {
            CallError::ResponseTooLarge
        } else {
            CallError::ConnectionClosed
        }
    })?;
    Ok((status, body.to_bytes()))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}
