//! HTTP/2, parsed by hyper.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Shared;
use super::request::RecordedRequest;

/// Answers every request with a short body and a trailer.
pub(super) async fn serve<S>(stream: S, shared: Arc<Shared>, number: u64, certificate: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(request, &shared, number, certificate).await) }
    });
    // A broken connection needs no handling.
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    request: Request<Incoming>,
    shared: &Shared,
    connection: u64,
    certificate: bool,
) -> Response<impl http_body::Body<Data = Bytes, Error = Infallible> + use<>> {
    let (head, body) = request.into_parts();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let lines = |map: &HeaderMap| -> Vec<(String, String)> {
        map.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    };
    let mut headers = lines(&head.headers);
    if let Some(authority) = head.uri.authority() {
        headers.push(("host".into(), authority.to_string()));
    }
    let mut recorded = RecordedRequest {
        connection,
        has_client_certificate: certificate,
        method: head.method.to_string(),
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        version: "HTTP/2.0".into(),
        headers,
        ..RecordedRequest::default()
    };
    let index = shared.push(recorded.clone());
    if let Ok(whole) = body.collect().await {
        recorded.trailers = whole.trailers().map(lines).unwrap_or_default();
        recorded.append_body(&whole.to_bytes());
        recorded.complete = true;
        shared.update(index, |entry| *entry = recorded.clone());
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("from-upstream"));
    let frames = [Ok(Frame::data(Bytes::from_static(b"upstream\n"))), Ok(Frame::trailers(trailers))];
    Response::new(StreamBody::new(stream::iter(frames)))
}
