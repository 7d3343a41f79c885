//! A real KMS v2 plugin: AES-256-GCM with a key of its own, on a Unix socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

use self::interface::key_management_service_server::{KeyManagementService, KeyManagementServiceServer};
use self::interface::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use crate::control_plane::KmsProvider;
use crate::error::{Error, IoContext, Result};

mod interface {
    #![allow(missing_docs, clippy::all, reason = "generated from the interface definition")]
    tonic::include_proto!("v2");
}

/// Length of the nonce that stands before each sealed text.
const NONCE_LENGTH: usize = 12;

/// A running plugin; it stops listening when dropped.
#[derive(Debug)]
pub struct KmsPlugin {
    name: String,
    socket: PathBuf,
    calls: Arc<Calls>,
    server: JoinHandle<()>,
}

/// How often each call was answered.
#[derive(Debug, Default)]
struct Calls {
    encrypt: AtomicU64,
    decrypt: AtomicU64,
}

impl KmsPlugin {
    /// Listens on a socket in `folder`, with a new random key.
    pub fn start(name: &str, folder: &Path) -> Result<Self> {
        let socket = folder.join(format!("{name}.sock"));
        // A file that a killed plugin left keeps the next one from listening.
        let _ = fs::remove_file(&socket);
        let listener =
            UnixListener::bind(&socket).context(|| format!("listening on {}", socket.display()))?;
        let calls = Arc::new(Calls::default());
        let plugin = Aes { key_id: format!("{name}-1"), key: new_key()?, calls: calls.clone() };
        let server = tokio::spawn(async move {
            let connections = futures_util::stream::unfold(listener, |listener| async move {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                Some((accepted, listener))
            });
            let service = KeyManagementServiceServer::new(plugin);
            let served = tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(connections)
                .await;
            if let Err(error) = served {
                eprintln!("testbed: the KMS plugin ended: {error}");
            }
        });
        Ok(Self { name: name.into(), socket, calls, server })
    }

    /// What kube-apiserver needs to know of it.
    #[must_use]
    pub fn provider(&self) -> KmsProvider {
        KmsProvider { name: self.name.clone(), socket: self.socket.clone() }
    }

    /// How many texts it has encrypted.
    #[must_use]
    pub fn encrypted(&self) -> u64 {
        self.calls.encrypt.load(Ordering::Relaxed)
    }

    /// How many texts it has decrypted.
    #[must_use]
    pub fn decrypted(&self) -> u64 {
        self.calls.decrypt.load(Ordering::Relaxed)
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn new_key() -> Result<RandomizedNonceKey> {
    let refused = |_| Error::Refused("no random key could be made".into());
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(refused)?;
    RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(refused)
}

struct Aes {
    key_id: String,
    key: RandomizedNonceKey,
    calls: Arc<Calls>,
}

#[tonic::async_trait]
impl KeyManagementService for Aes {
    async fn status(
        &self,
        _: Request<StatusRequest>,
    ) -> std::result::Result<Response<StatusResponse>, Status> {
        Ok(Response::new(StatusResponse {
            version: "v2".into(),
            healthz: "ok".into(),
            key_id: self.key_id.clone(),
        }))
    }

    async fn encrypt(
        &self,
        request: Request<EncryptRequest>,
    ) -> std::result::Result<Response<EncryptResponse>, Status> {
        let mut sealed = request.into_inner().plaintext;
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::empty(), &mut sealed)
            .map_err(|_| Status::internal("the text could not be sealed"))?;
        let ciphertext = [nonce.as_ref().as_slice(), &sealed].concat();
        self.calls.encrypt.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(EncryptResponse {
            ciphertext,
            key_id: self.key_id.clone(),
            annotations: Default::default(),
        }))
    }

    async fn decrypt(
        &self,
        request: Request<DecryptRequest>,
    ) -> std::result::Result<Response<DecryptResponse>, Status> {
        let DecryptRequest { ciphertext, key_id, .. } = request.into_inner();
        if key_id != self.key_id {
            return Err(Status::not_found(format!("there is no key {key_id:?}")));
        }
        let malformed = || Status::invalid_argument("this was not sealed by this plugin");
        let (nonce, sealed) = ciphertext.split_at_checked(NONCE_LENGTH).ok_or_else(malformed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| malformed())?;
        let mut sealed = sealed.to_vec();
        let plaintext =
            self.key.open_in_place(nonce, Aad::empty(), &mut sealed).map_err(|_| malformed())?.to_vec();
        self.calls.decrypt.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(DecryptResponse { plaintext }))
    }
}
