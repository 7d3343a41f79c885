//! A client of KMS v2 plugins that calls them as kube-apiserver does. Connect failures are returned immediately. A connection is reused
//! after a call that got a response, and only while the socket is still the file it was opened through.

mod codec;
mod connection;
mod connection_cache;
mod failure;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use plan::kms::call::{CallError, EncryptReply, StatusReply};
use prost::Message;

use self::codec::Bytes;
use self::connection::Connection;
use self::connection_cache::{ConnectionCache, SocketFile};
use crate::proto::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest};

/// Maximum response size. The largest that an API server accepts has 33 KiB: ciphertext, key id and annotations.
const RESPONSE_LIMIT: usize = 64 * 1024;

/// Client of one KMS plugin.
#[derive(Clone, Debug)]
pub struct PluginClient {
    socket: PathBuf,
    connections: Arc<ConnectionCache>,
}

impl PluginClient {
    /// Returns a client for the plugin on a socket. Nothing is connected yet.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), connections: Arc::default() }
    }

    /// Returns the socket path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Calls Status.
    pub async fn status(&self, timeout: Duration) -> Result<StatusReply, CallError> {
        let response: codec::StatusBytes =
            self.call("/v2.KeyManagementService/Status", &StatusRequest {}, timeout).await?;
        let codec::StatusBytes { version, healthz, key_id } = response;
        Ok(StatusReply {
            version: failure::decode_text("version", version)?,
            healthz: failure::decode_text("healthz", healthz)?,
            key_id: failure::decode_text("key_id", key_id)?,
        })
    }

    /// Calls Encrypt. The uid identifies the call in the plugin's log.
    pub async fn encrypt(
        &self,
        plaintext: &[u8],
        uid: &str,
        timeout: Duration,
    ) -> Result<EncryptReply, CallError> {
        let request = EncryptRequest { plaintext: plaintext.to_vec(), uid: uid.into() };
        let EncryptResponse { ciphertext, key_id, annotations } =
            self.call("/v2.KeyManagementService/Encrypt", &request, timeout).await?;
        Ok(EncryptReply { ciphertext, key_id, annotations: annotations.into_iter().collect() })
    }

    /// Calls Decrypt with an encrypted text.
    pub async fn decrypt(
        &self,
        encrypted: &EncryptReply,
        uid: &str,
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let request = DecryptRequest {
            ciphertext: encrypted.ciphertext.clone(),
            uid: uid.into(),
            key_id: encrypted.key_id.clone(),
            annotations: encrypted.annotations.clone().into_iter().collect(),
        };
        let DecryptResponse { plaintext } =
            self.call("/v2.KeyManagementService/Decrypt", &request, timeout).await?;
        Ok(plaintext)
    }

    async fn call<T: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        timeout: Duration,
    ) -> Result<T, CallError> {
        let request = Bytes::from(request.encode_to_vec());
        let call = tokio::time::timeout(timeout, self.unary(PathAndQuery::from_static(method), request));
        let response = call.await.map_err(|_| CallError::Timeout(timeout))??;
        T::decode(response).map_err(|error| CallError::Protocol(format!("malformed response: {error}")))
    }

    /// Makes a call, on the cached connection if there is one. A call that times out drops its connection.
    async fn unary(&self, method: PathAndQuery, request: Bytes) -> Result<Bytes, CallError> {
        // Before connecting: a socket that is replaced in between is noticed by the next call.
        let file = SocketFile::stat(&self.socket);
        if let Some(connection) = self.connections.take(file) {
            let response = connection.unary(method.clone(), request.clone(), RESPONSE_LIMIT).await;
            // The plugin may have closed an idle connection: retry on a new one before blaming the plugin.
            if !matches!(response, Err(CallError::Protocol(_))) {
                self.connections.put(file, connection);
                return response;
            }
        }
        let connection = Connection::open(&self.socket).await?;
        let response = connection.unary(method, request, RESPONSE_LIMIT).await;
        if !matches!(response, Err(CallError::Protocol(_))) {
            self.connections.put(file, connection);
        }
        response
    }
}
