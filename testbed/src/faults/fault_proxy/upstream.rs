//! The way to the API server. Every request has a connection of its own: one that is kept could be closed by the server
//! at the very moment a request is sent on it, and the proxy would make a fault that nobody asked for.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::identity::{self, Holder};
use crate::cluster::control_plane::ControlPlane;
use crate::error::{Error, IoContext, Result};
use crate::tls;

/// How the API server is reached.
pub(super) struct Upstream {
    address: SocketAddr,
    host: String,
    /// Shows the front proxy's certificate, and so may speak for others.
    speaking: TlsConnector,
    /// Shows none.
    passing: TlsConnector,
}

impl Upstream {
    pub(super) fn of(plane: &ControlPlane) -> Result<Self> {
        let url = plane.url();
        let refused = || Error::Refused(format!("{url} is no address of an API server"));
        let uri: Uri = url.parse().map_err(|_| refused())?;
        let host = uri.authority().map(|authority| authority.as_str().to_owned()).ok_or_else(refused)?;
        let address = host.parse().map_err(|_| refused())?;
        let identity = plane.front_proxy_authority().client("front-proxy-client", None)?;
        let connector = |identity| -> Result<TlsConnector> {
            let mut config = tls::client(plane.authority().pem(), identity)?;
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(TlsConnector::from(Arc::new(config)))
        };
        Ok(Self { address, host, speaking: connector(Some(&identity))?, passing: connector(None)? })
    }

    /// Sends a request: in the name of a certificate's holder, or as it is.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        holder: Option<&Holder>,
    ) -> Result<Response<Answering>> {
        *request.headers_mut() = identity::outgoing(request.headers(), holder, &self.host)?;
        let connector = if holder.is_some() { &self.speaking } else { &self.passing };
        let reaching = || format!("reaching the API server at {}", self.host);
        let tcp = TcpStream::connect(self.address).await.context(reaching)?;
        tcp.set_nodelay(true).context(reaching)?;
        let stream = connector.connect(self.address.ip().into(), tcp).await.context(reaching)?;
        let failed = |error: hyper::Error| Error::Refused(format!("{}: {error}", reaching()));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let connection = Connection(tokio::spawn(async move {
            // How it ended is told by the answer or its body, which end with it.
            let _ = connection.await;
        }));
        let is_write = *request.method() != Method::GET;
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let answer = sender.send_request(request).await;
            let answer = answer.map(|answer| answer.map(|body| Answering { body, _connection: connection }));
            // The API server logs as a failure what it has done and cannot tell: who dies while it is asked for a change must not
            // make it look undone.
            if let Err(Ok(unheard)) = tell.send(answer)
                && is_write
            {
                let _ = unheard.into_body().collect().await;
            }
        });
        let answer = told.await.map_err(|_| Error::Refused(format!("{}: no answer", reaching())))?;
        answer.map_err(failed)
    }

    /// Asks something as the proxy itself, and returns the whole answer.
    pub(super) async fn ask(&self, address: &str, accept: &str) -> Result<Response<Bytes>> {
        let refused =
            |error: &dyn std::fmt::Display| Error::Refused(format!("asking for {address}: {error}"));
        let accept = accept.parse().map_err(|error| refused(&error))?;
        let mut request = Request::get(address).body(Full::default()).map_err(|error| refused(&error))?;
        *request.headers_mut() = identity::own_headers(accept);
        let (head, body) = self.send(request, Some(&Holder::own())).await?.into_parts();
        let body = body.collect().await.map_err(|error| refused(&error))?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

/// The task that moves the bytes of one connection; it ends with its owner.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of an answer, and the connection that it comes over.
pub(super) struct Answering {
    body: Incoming,
    _connection: Connection,
}

impl Body for Answering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
