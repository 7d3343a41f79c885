//! One request, from its head to the head of its answer.

use std::sync::Arc;
use std::time::Instant;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::access::Line;
use super::activity::InFlight;
use super::gate::{Admitted, Credential, Head};
use super::peer::Peer;
use super::refusal::Refusal;
use super::shape;
use super::worker::Worker;
use crate::metrics::ProxyMetrics;
use crate::outcome::Outcome;
use crate::request::{connection, path};
use crate::upstream::body::{Outgoing, Reply};
use crate::upstream::send::Failure;
use crate::upstream::tunnel;

const X_FORWARDED_FOR: http::HeaderName = http::HeaderName::from_static("x-forwarded-for");

/// Serves one request.
pub(crate) async fn serve(
    worker: &Worker,
    peer: &Arc<Peer>,
    mut request: Request<Incoming>,
) -> Response<Reply> {
    let began = Instant::now();
    let (in_flight, ambiguous) = peer.activity.begin(worker.gate.metrics.in_flight());
    let mut ending = Ending { metrics: &worker.gate.metrics, outcome: Outcome::ClientGone };
    let told = worker.access_log.then(|| (request.method().clone(), request.uri().path().to_owned()));
    let admitted = if ambiguous {
        Err(Outcome::AmbiguousFraming.into())
    } else {
        admit(worker, peer, &mut request, began).await
    };
    let (response, outcome, user) = match admitted {
        Ok(Passed { admitted, host, upgrade }) => {
            let user = admitted.identity.clone();
            let ignored = user.is_none();
            match forward(worker, peer, request, (admitted, host, upgrade), in_flight).await {
                Ok(response) => {
                    let outcome = if ignored { Outcome::Ignored } else { Outcome::Allowed };
                    (response, outcome, user)
                }
                Err(refusal) => (refusal.clone().into_response(), refusal.outcome, user),
            }
        }
        Err(refusal) => (refusal.clone().into_response(), refusal.outcome, None),
    };
    ending.outcome = outcome;
    if let Some((method, path)) = &told {
        let (user, status) = (user.as_ref().map(|identity| &*identity.user), response.status());
        Line { peer, method, path, user, outcome, status, took: began.elapsed() }.write();
    }
    response
}

/// Counts a request when it is over, also when its client went away and nobody waits for it any more.
struct Ending<'a> {
    metrics: &'a ProxyMetrics,
    outcome: Outcome,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.metrics.ended(self.outcome);
    }
}

/// What is known of a request that may be forwarded.
struct Passed {
    admitted: Admitted,
    host: Option<HeaderValue>,
    upgrade: Option<(HeaderValue, OnUpgrade)>,
}

/// Every step up to forwarding, in its order. Headers that only we may set are gone afterwards.
async fn admit(
    worker: &Worker,
    peer: &Peer,
    request: &mut Request<Incoming>,
    now: Instant,
) -> Result<Passed, Refusal> {
    if let Some(outcome) = shape::without_path(request.method(), request.uri()) {
        return Err(outcome.into());
    }
    let host = shape::host(request)?;
    if request.headers().get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
        return Err(Outcome::TwoAuthorizations.into());
    }
    // Whatever is not ASCII must be escaped; readers differ in what they make of it otherwise.
    if request.uri().path_and_query().is_some_and(|target| !target.as_str().is_ascii()) {
        return Err(Outcome::AmbiguousPath.into());
    }
    let decoded = path::canonical(request.uri().path()).map_err(|why| {
        tracing::debug!(client = %peer.address, ?why, "a path could be read in two ways");
        Outcome::AmbiguousPath
    })?;
    let head = Head {
        method: request.method(),
        path: &decoded,
        query: request.uri().query(),
        headers: request.headers(),
    };
    let admitted = worker.gate.admit(peer, head, now).await?;
    drop(decoded);
    let upgrade = upgrade(worker, request, &admitted)?;
    let headers = request.headers_mut();
    if worker.gate.protected.strip(headers) {
        worker.gate.metrics.stripped();
    }
    connection::strip_request(headers, &worker.gate.protected)
        .map_err(|connection::NamesProtected| Outcome::DropsIdentity)?;
    Ok(Passed { admitted, host, upgrade })
}

/// The protocol that client and upstream may switch to. One that is not allowed is ignored, as HTTP provides (W4); on ignored paths
/// none is, since nobody would know who speaks.
fn upgrade(
    worker: &Worker,
    request: &mut Request<Incoming>,
    admitted: &Admitted,
) -> Result<Option<(HeaderValue, OnUpgrade)>, Refusal> {
    if request.version() != Version::HTTP_11 || !request.headers().contains_key(header::UPGRADE) {
        return Ok(None);
    }
    let wanted = connection::wanted_upgrade(request.headers()).map_err(|()| Outcome::BadUpgrade)?;
    let Some(wanted) = wanted else { return Ok(None) };
    let allowed = worker.upgrades.iter().any(|name| name.eq_ignore_ascii_case(wanted));
    if !allowed || admitted.identity.is_none() {
        return Ok(None);
    }
    if shape::announces_body(request.headers()) {
        return Err(Outcome::BadUpgrade.into());
    }
    let token = HeaderValue::from_str(wanted).map_err(|_| Outcome::BadUpgrade)?;
    Ok(Some((token, hyper::upgrade::on(request))))
}

type Who = (Admitted, Option<HeaderValue>, Option<(HeaderValue, OnUpgrade)>);

async fn forward(
    worker: &Worker,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
    (admitted, host, upgrade): Who,
    in_flight: InFlight,
) -> Result<Response<Reply>, Refusal> {
    let (mut parts, body) = request.into_parts();
    let own = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let target = worker.target.join(&own).ok_or(Outcome::BadTarget)?;
    parts.uri = target.into();
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();
    headers(worker, peer, &mut parts.headers, &admitted, host);
    if let Some((token, _)) = &upgrade {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        parts.headers.insert(header::UPGRADE, token.clone());
    }
    let (body, ended) = Outgoing::new(body, &worker.gate.protected, &peer.activity);
    // Said explicitly: with GET and others, a body of unknown length would be left out.
    if !body.is_end_stream() && body.size_hint().exact().is_none() {
        parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let sending = Instant::now();
    let sent = worker.upstream.send(Request::from_parts(parts, body), ended).await;
    worker.gate.metrics.upstream_took(sending.elapsed());
    let (response, lease) = sent.map_err(|failure| {
        if let Some(kept_back) = worker.told.may_tell(Instant::now()) {
            tracing::warn!(client = %peer.address, %failure, kept_back, "502");
        }
        match failure {
            Failure::Unreachable(_) => Outcome::UpstreamUnreachable,
            Failure::Broken(_) => Outcome::UpstreamBroken,
        }
    })?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(peer, response, upgrade);
    }
    let (mut parts, body) = response.into_parts();
    connection::strip_response(&mut parts.headers);
    parts.extensions = http::Extensions::new();
    Ok(Response::from_parts(parts, Reply::passing(body, lease, in_flight)))
}

/// Writes the headers that the upstream is to see. Ours come last, so that nothing the client sent can undo them.
fn headers(
    worker: &Worker,
    peer: &Peer,
    headers: &mut HeaderMap,
    admitted: &Admitted,
    host: Option<HeaderValue>,
) {
    match &admitted.credential {
        // Nobody has looked at it: an upstream that believes it would be deceived (W1).
        Credential::None | Credential::Token => {
            headers.remove(header::AUTHORIZATION);
        }
        Credential::Certificate => {}
        Credential::Websocket(rest) => {
            headers.remove(header::AUTHORIZATION);
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, rest.clone());
        }
    }
    let host = worker.host.clone().or(host).or_else(|| worker.own_host.clone());
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    forwarded_for(headers, &peer.forwarded_for);
    if let (Some(style), Some(identity)) = (&worker.gate.style, &admitted.identity)
        && let Some(Ok((user, groups))) = &identity.headers
    {
        headers.insert(&style.user, user.clone());
        headers.insert(&style.groups, groups.clone());
    }
}

/// Adds the client to the list of those that a request has come through.
fn forwarded_for(headers: &mut HeaderMap, client: &HeaderValue) {
    let mut before = headers.get_all(X_FORWARDED_FOR).iter().peekable();
    if before.peek().is_none() {
        headers.insert(X_FORWARDED_FOR, client.clone());
        return;
    }
    let mut list = Vec::new();
    for line in before {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(client.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(X_FORWARDED_FOR, list);
    }
}

/// Switches both sides to the protocol that was asked for. An upstream that names another one is not believed.
fn switch(
    peer: &Arc<Peer>,
    mut response: Response<Incoming>,
    upgrade: Option<(HeaderValue, OnUpgrade)>,
) -> Result<Response<Reply>, Refusal> {
    let agreed = connection::wanted_upgrade(response.headers()).ok().flatten();
    let Some((token, client)) = upgrade else { return Err(Outcome::UpstreamBroken.into()) };
    if !agreed.is_some_and(|agreed| agreed.as_bytes().eq_ignore_ascii_case(token.as_bytes())) {
        tracing::warn!(client = %peer.address, ?agreed, "502: the upstream switched to another protocol than was asked for");
        return Err(Outcome::UpstreamBroken.into());
    }
    let upstream = hyper::upgrade::on(&mut response);
    // It ends with the connections that it joins.
    tokio::spawn(tunnel::run(client, upstream, peer.clone()));
    let mut switching = Response::new(Reply::Text(bytes::Bytes::new()));
    *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    std::mem::swap(switching.headers_mut(), response.headers_mut());
    connection::strip_response(switching.headers_mut());
    switching.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    switching.headers_mut().insert(header::UPGRADE, token);
    Ok(switching)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HDR-04.
    #[test]
    fn the_client_is_added_to_those_before_it() {
        let client = HeaderValue::from_static("198.18.0.9");
        let mut headers = HeaderMap::new();
        forwarded_for(&mut headers, &client);
        assert_eq!(headers[X_FORWARDED_FOR], "198.18.0.9");
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("a"));
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("b, c"));
        forwarded_for(&mut headers, &client);
        assert_eq!(headers[X_FORWARDED_FOR], "a, b, c, 198.18.0.9");
        assert_eq!(headers.get_all(X_FORWARDED_FOR).iter().count(), 1);
    }
}
