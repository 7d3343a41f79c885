//! Calls of a KMS v2 plugin on its Unix socket, as kube-apiserver makes them. A dial that fails is told at once. A connection is kept for
//! the next call after one that was answered, and only as long as the socket is the file that it was made by.

mod codec;
mod connection;
mod failure;
mod kept;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use plan::kms::call::{Encrypted, Failure, StatusAnswer};
use prost::Message;

use self::codec::Bytes;
use self::connection::Connection;
use self::kept::{File, Kept};
use crate::interface::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest};

/// Most bytes of an answer. The largest that an API server takes has 33 KiB: ciphertext, key id and annotations.
const ANSWER_LIMIT: usize = 64 * 1024;

/// A plugin's socket.
#[derive(Clone, Debug)]
pub struct Plugin {
    socket: PathBuf,
    kept: Arc<Kept>,
}

impl Plugin {
    /// The plugin that listens on a socket, or should.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), kept: Arc::default() }
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks how it is.
    pub async fn status(&self, within: Duration) -> Result<StatusAnswer, Failure> {
        let answer: codec::StatusBytes =
            self.call("/v2.KeyManagementService/Status", &StatusRequest {}, within).await?;
        let codec::StatusBytes { version, healthz, key_id } = answer;
        Ok(StatusAnswer {
            version: failure::text("version", version)?,
            healthz: failure::text("healthz", healthz)?,
            key_id: failure::text("key_id", key_id)?,
        })
    }

    /// Has it encrypt a text. The uid identifies the call in its log.
    pub async fn encrypt(&self, plaintext: &[u8], uid: &str, within: Duration) -> Result<Encrypted, Failure> {
        let request = EncryptRequest { plaintext: plaintext.to_vec(), uid: uid.into() };
        let EncryptResponse { ciphertext, key_id, annotations } =
            self.call("/v2.KeyManagementService/Encrypt", &request, within).await?;
        Ok(Encrypted { ciphertext, key_id, annotations: annotations.into_iter().collect() })
    }

    /// Has it decrypt what it has encrypted.
    pub async fn decrypt(
        &self,
        encrypted: &Encrypted,
        uid: &str,
        within: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let request = DecryptRequest {
            ciphertext: encrypted.ciphertext.clone(),
            uid: uid.into(),
            key_id: encrypted.key_id.clone(),
            annotations: encrypted.annotations.clone().into_iter().collect(),
        };
        let DecryptResponse { plaintext } =
            self.call("/v2.KeyManagementService/Decrypt", &request, within).await?;
        Ok(plaintext)
    }

    async fn call<T: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        within: Duration,
    ) -> Result<T, Failure> {
        let request = Bytes::from(request.encode_to_vec());
        let answered = tokio::time::timeout(within, self.unary(PathAndQuery::from_static(method), request));
        let answer = answered.await.map_err(|_| Failure::Timeout(within))??;
        T::decode(answer).map_err(|error| Failure::Protocol(format!("the answer cannot be read: {error}")))
    }

    /// One call, on the connection that is kept if there is one. Whatever ends early drops its connection.
    async fn unary(&self, method: PathAndQuery, request: Bytes) -> Result<Bytes, Failure> {
        // Before the dial: a socket that is replaced meanwhile is found at the next call.
        let file = File::at(&self.socket);
        if let Some(connection) = self.kept.take(file) {
            let answer = connection.unary(method.clone(), request.clone(), ANSWER_LIMIT).await;
            // What is wrong with a connection that has stood there for a while need not be wrong with the plugin.
            if !matches!(answer, Err(Failure::Protocol(_))) {
                self.kept.keep(file, connection);
                return answer;
            }
        }
        let connection = Connection::open(&self.socket).await?;
        let answer = connection.unary(method, request, ANSWER_LIMIT).await;
        if !matches!(answer, Err(Failure::Protocol(_))) {
            self.kept.keep(file, connection);
        }
        answer
    }
}
