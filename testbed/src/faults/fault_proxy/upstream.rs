//! Connections to the API server, one per request: a kept-alive connection could be closed by the server just as a
//! request is sent, which would be a fault that no test injected.

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

use super::identity::{self, ClientIdentity};
use crate::cluster::control_plane::ControlPlane;
use crate::error::{Error, IoContext, Result};
use crate::tls;

/// Client of the API server.
pub(super) struct Upstream {
    address: SocketAddr,
    host: String,
    /// Uses the front-proxy certificate, which may name other users.
    as_front_proxy: TlsConnector,
    /// Uses no certificate.
    without_certificate: TlsConnector,
}

impl Upstream {
    pub(super) fn new(plane: &ControlPlane) -> Result<Self> {
        let url = plane.url();
        let invalid = || Error::Other(format!("invalid API server URL {url}: expected https://IP:PORT"));
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let host = uri.authority().map(|authority| authority.as_str().to_owned()).ok_or_else(invalid)?;
        let address = host.parse().map_err(|_| invalid())?;
        let identity = plane.front_proxy_ca().issue_client("front-proxy-client", None)?;
        let connector = |identity| -> Result<TlsConnector> {
            let mut config = tls::client(plane.ca().pem(), identity)?;
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(TlsConnector::from(Arc::new(config)))
        };
        Ok(Self {
            address,
            host,
            as_front_proxy: connector(Some(&identity))?,
            without_certificate: connector(None)?,
        })
    }

    /// Sends a request as the holder of a certificate, or unchanged.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        identity: Option<&ClientIdentity>,
    ) -> Result<Response<UpstreamBody>> {
        *request.headers_mut() = identity::outgoing(request.headers(), identity, &self.host)?;
        let connector = if identity.is_some() { &self.as_front_proxy } else { &self.without_certificate };
        let connecting = || format!("connecting to the API server at {}", self.host);
        let tcp = TcpStream::connect(self.address).await.context(connecting)?;
        tcp.set_nodelay(true).context(connecting)?;
        let stream = connector.connect(self.address.ip().into(), tcp).await.context(connecting)?;
        let failed = |error: hyper::Error| Error::Other(format!("{}: {error}", connecting()));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let connection = Connection(tokio::spawn(async move {
            // Errors surface in the response or its body.
            let _ = connection.await;
        }));
        let is_write = *request.method() != Method::GET;
        let (response_tx, response_rx) = oneshot::channel();
        tokio::spawn(async move {
            let response = sender.send_request(request).await;
            let response =
                response.map(|response| response.map(|body| UpstreamBody { body, _connection: connection }));
            // The API server logs a failure if the client of a completed write disconnects early. So the response
            // of a write is read to the end, even if the process was killed meanwhile.
            if let Err(Ok(unsent)) = response_tx.send(response)
                && is_write
            {
                let _ = unsent.into_body().collect().await;
            }
        });
        let response =
            response_rx.await.map_err(|_| Error::Other(format!("{}: no response", connecting())))?;
        response.map_err(failed)
    }

    /// Sends a request as the proxy itself and returns the whole response.
    pub(super) async fn get(&self, address: &str, accept: &str) -> Result<Response<Bytes>> {
        let invalid = |error: &dyn std::fmt::Display| Error::Other(format!("GET {address}: {error}"));
        let accept = accept.parse().map_err(|error| invalid(&error))?;
        let mut request = Request::get(address).body(Full::default()).map_err(|error| invalid(&error))?;
        *request.headers_mut() = identity::own_headers(accept);
        let (head, body) = self.send(request, Some(&ClientIdentity::proxy())).await?.into_parts();
        let body = body.collect().await.map_err(|error| invalid(&error))?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

/// The I/O task of one connection; aborted on drop.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A response body that keeps its connection alive.
pub(super) struct UpstreamBody {
    body: Incoming,
    _connection: Connection,
}

impl Body for UpstreamBody {
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
