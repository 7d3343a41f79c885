//! Handles one request, up to the response headers.

use std::sync::Arc;
use std::time::Instant;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::access_control::{Admitted, Credential, Head};
use super::access_log::AccessLogEntry;
use super::activity::InFlight;
use super::local_response::LocalResponse;
use super::peer::Peer;
use super::validation;
use super::worker::{Worker, WorkerConfig};
use crate::metrics::ProxyMetrics;
use crate::outcome::Outcome;
use crate::request::{hop_by_hop, path};
use crate::upstream::body::{RequestBody, ResponseBody};
use crate::upstream::client::UpstreamError;
use crate::upstream::tunnel;

const X_FORWARDED_FOR: http::HeaderName = http::HeaderName::from_static("x-forwarded-for");

/// Handles one request.
pub(crate) async fn handle(
    worker: &Worker,
    peer: &Arc<Peer>,
    mut request: Request<Incoming>,
) -> Response<ResponseBody> {
    let started = Instant::now();
    let metrics = &worker.config.access.metrics;
    let (in_flight, is_ambiguous) = peer.activity.begin_request(metrics.in_flight());
    let mut recorder = OutcomeRecorder { metrics, outcome: Outcome::ClientGone };
    let logged =
        worker.config.access_log.then(|| (request.method().clone(), request.uri().path().to_owned()));
    let admitted = if is_ambiguous {
        Err(Outcome::AmbiguousFraming.into())
    } else {
        admit(worker, peer, &mut request, started).await
    };
    let (response, outcome, user) = match admitted {
        Ok(context) => {
            let user = context.admitted.identity.clone();
            match forward(worker, peer, request, context, in_flight).await {
                Ok(response) => {
                    let outcome = if user.is_none() { Outcome::Ignored } else { Outcome::Allowed };
                    (response, outcome, user)
                }
                Err(local) => {
                    let outcome = local.outcome;
                    (local.into_response(), outcome, user)
                }
            }
        }
        Err(local) => {
            let outcome = local.outcome;
            (local.into_response(), outcome, None)
        }
    };
    recorder.outcome = outcome;
    if let Some((method, path)) = &logged {
        let (user, status) = (user.as_ref().map(|identity| &*identity.user), response.status());
        AccessLogEntry { peer, method, path, user, outcome, status, duration: started.elapsed() }.emit();
    }
    response
}

/// Counts a request on drop, also when the client disconnected and the future was dropped.
struct OutcomeRecorder<'a> {
    metrics: &'a ProxyMetrics,
    outcome: Outcome,
}

impl Drop for OutcomeRecorder<'_> {
    fn drop(&mut self) {
        self.metrics.record_outcome(self.outcome);
    }
}

/// What forwarding needs to know about an admitted request.
struct ForwardContext {
    admitted: Admitted,
    host: Option<HeaderValue>,
    upgrade: Option<(HeaderValue, OnUpgrade)>,
}

/// Runs every check up to forwarding, and removes the headers that only the proxy may set.
async fn admit(
    worker: &Worker,
    peer: &Peer,
    request: &mut Request<Incoming>,
    now: Instant,
) -> Result<ForwardContext, LocalResponse> {
    if let Some(outcome) = validation::non_path_outcome(request.method(), request.uri()) {
        return Err(outcome.into());
    }
    let host = validation::host(request)?;
    if request.headers().get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
        return Err(Outcome::DuplicateAuthorization.into());
    }
    // Non-ASCII bytes must be escaped: parsers differ in how they decode them.
    if request.uri().path_and_query().is_some_and(|target| !target.as_str().is_ascii()) {
        return Err(Outcome::AmbiguousPath.into());
    }
    let decoded = path::canonicalize(request.uri().path()).map_err(|error| {
        tracing::debug!(client = %peer.address, ?error, "ambiguous path rejected");
        Outcome::AmbiguousPath
    })?;
    let head = Head {
        method: request.method(),
        path: &decoded,
        query: request.uri().query(),
        headers: request.headers(),
    };
    let admitted = worker.config.access.admit(peer, head, now).await?;
    drop(decoded);
    let upgrade = allowed_upgrade(worker, request, &admitted)?;
    let headers = request.headers_mut();
    let access = &worker.config.access;
    if access.protected.strip(headers) {
        access.metrics.record_stripped();
    }
    hop_by_hop::strip_request(headers, &access.protected)
        .map_err(|hop_by_hop::DropsProtectedHeader| Outcome::DropsIdentity)?;
    Ok(ForwardContext { admitted, host, upgrade })
}

/// Returns the protocol that the connection may switch to. A protocol that is not allowed is ignored, as HTTP
/// provides; on ignored paths none is allowed, because the user is unknown.
fn allowed_upgrade(
    worker: &Worker,
    request: &mut Request<Incoming>,
    admitted: &Admitted,
) -> Result<Option<(HeaderValue, OnUpgrade)>, LocalResponse> {
    if request.version() != Version::HTTP_11 || !request.headers().contains_key(header::UPGRADE) {
        return Ok(None);
    }
    let requested = hop_by_hop::requested_upgrade(request.headers()).map_err(|()| Outcome::BadUpgrade)?;
    let Some(requested) = requested else { return Ok(None) };
    let is_allowed = worker.config.upgrades.iter().any(|name| name.eq_ignore_ascii_case(requested));
    if !is_allowed || admitted.identity.is_none() {
        return Ok(None);
    }
    if validation::announces_body(request.headers()) {
        return Err(Outcome::BadUpgrade.into());
    }
    let token = HeaderValue::from_str(requested).map_err(|_| Outcome::BadUpgrade)?;
    Ok(Some((token, hyper::upgrade::on(request))))
}

async fn forward(
    worker: &Worker,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
    context: ForwardContext,
    in_flight: InFlight,
) -> Result<Response<ResponseBody>, LocalResponse> {
    let ForwardContext { admitted, host, upgrade } = context;
    let (mut parts, body) = request.into_parts();
    let closes_connection = parts.version != Version::HTTP_2 && !peer.slot.try_promote();
    let path_and_query =
        parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let target = worker.config.upstream_url.resolve(&path_and_query).ok_or(Outcome::BadTarget)?;
    parts.uri = target.into();
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();
    set_headers(worker, peer, &mut parts.headers, &admitted, host);
    if let Some((token, _)) = &upgrade {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        parts.headers.insert(header::UPGRADE, token.clone());
    }
    let (body, ended) = RequestBody::new(body, &worker.config.access.not_in_trailers, &peer.activity);
    // Explicit, because for GET and other methods hyper would omit a body of unknown length.
    if !body.is_end_stream() && body.size_hint().exact().is_none() {
        parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let sent_at = Instant::now();
    let result = worker.upstream.send(Request::from_parts(parts, body), ended).await;
    worker.config.access.metrics.observe_upstream(sent_at.elapsed());
    let (response, lease) = result.map_err(|error| {
        if let Some(suppressed) = worker.upstream_failures.permit(Instant::now()) {
            tracing::warn!(client = %peer.address, %error, suppressed, "upstream request failed");
        }
        match error {
            UpstreamError::Unreachable(_) => Outcome::UpstreamUnreachable,
            UpstreamError::Broken(_) => Outcome::UpstreamBroken,
        }
    })?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch_protocols(peer, response, upgrade);
    }
    let (mut parts, body) = response.into_parts();
    hop_by_hop::strip_response(&mut parts.headers);
    if closes_connection {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    parts.extensions = http::Extensions::new();
    Ok(Response::from_parts(parts, ResponseBody::from_upstream(body, lease, in_flight)))
}

/// Sets the headers for the upstream. The identity headers come last, so that no client header can replace
/// them.
fn set_headers(
    worker: &Worker,
    peer: &Peer,
    headers: &mut HeaderMap,
    admitted: &Admitted,
    host: Option<HeaderValue>,
) {
    match &admitted.credential {
        // On ignored paths the header is unverified; an upstream could trust it.
        Credential::None | Credential::Token => {
            headers.remove(header::AUTHORIZATION);
        }
        Credential::Certificate => {}
        Credential::Websocket(remaining) => {
            headers.remove(header::AUTHORIZATION);
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, remaining.clone());
        }
    }
    let WorkerConfig { host_override, default_host, access, .. } = &worker.config;
    let host = host_override.clone().or(host).or_else(|| default_host.clone());
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    append_forwarded_for(headers, &peer.forwarded_for);
    if let (Some(names), Some(identity)) = (&access.identity_headers, &admitted.identity)
        && let Some(Ok((user, groups))) = &identity.headers
    {
        headers.insert(&names.user, user.clone());
        headers.insert(&names.groups, groups.clone());
    }
}

/// Appends the client address to `X-Forwarded-For`.
fn append_forwarded_for(headers: &mut HeaderMap, client: &HeaderValue) {
    let mut previous = headers.get_all(X_FORWARDED_FOR).iter().peekable();
    if previous.peek().is_none() {
        headers.insert(X_FORWARDED_FOR, client.clone());
        return;
    }
    let mut list = Vec::new();
    for line in previous {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(client.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(X_FORWARDED_FOR, list);
    }
}

/// Switches both connections to the requested protocol. An upstream that switches to a different one is a
/// failure.
fn switch_protocols(
    peer: &Arc<Peer>,
    mut response: Response<Incoming>,
    upgrade: Option<(HeaderValue, OnUpgrade)>,
) -> Result<Response<ResponseBody>, LocalResponse> {
    let agreed = hop_by_hop::requested_upgrade(response.headers()).ok().flatten();
    let Some((token, client)) = upgrade else { return Err(Outcome::UpstreamBroken.into()) };
    if !agreed.is_some_and(|agreed| agreed.as_bytes().eq_ignore_ascii_case(token.as_bytes())) {
        tracing::warn!(client = %peer.address, ?agreed, "upstream switched to a protocol that was not requested");
        return Err(Outcome::UpstreamBroken.into());
    }
    let upstream = hyper::upgrade::on(&mut response);
    // The task ends with the two connections.
    tokio::spawn(tunnel::run(client, upstream, peer.clone()));
    let mut switching = Response::new(ResponseBody::Text(bytes::Bytes::new()));
    *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    std::mem::swap(switching.headers_mut(), response.headers_mut());
    hop_by_hop::strip_response(switching.headers_mut());
    switching.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    switching.headers_mut().insert(header::UPGRADE, token);
    Ok(switching)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_appended_to_forwarded_for() {
        let client = HeaderValue::from_static("198.18.0.9");
        let mut headers = HeaderMap::new();
        append_forwarded_for(&mut headers, &client);
        assert_eq!(headers[X_FORWARDED_FOR], "198.18.0.9");
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("a"));
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("b, c"));
        append_forwarded_for(&mut headers, &client);
        assert_eq!(headers[X_FORWARDED_FOR], "a, b, c, 198.18.0.9");
        assert_eq!(headers.get_all(X_FORWARDED_FOR).iter().count(), 1);
    }
}
