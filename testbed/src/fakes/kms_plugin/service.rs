//! The KMS v2 service, with scripted faults.

use std::collections::HashMap;
use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::interface::key_management_service_server::KeyManagementService;
use super::interface::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use super::script::{DecryptFault, EncryptFault, PluginState};

/// The service of one connection.
#[derive(Clone, Debug)]
pub(super) struct KmsService {
    pub(super) state: Arc<PluginState>,
}

#[tonic::async_trait]
impl KeyManagementService for KmsService {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.state.count(|calls| calls.status += 1);
        let script = self.state.delay_or_fail().await?;
        let mut key_id = script.key_id.unwrap_or_else(|| self.state.keys().current_id().into_bytes());
        if script.key_id_changes {
            key_id.extend(format!("-{}", self.state.calls().status).into_bytes());
        }
        Ok(Response::new(StatusResponse { version: script.version, healthz: script.healthz, key_id }))
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        let script = self.state.delay_or_fail().await?;
        let EncryptRequest { plaintext, .. } = request.into_inner();
        let (sealed, key_id) = {
            let keys = self.state.keys();
            (keys.seal(plaintext.clone()), keys.current_id())
        };
        let ciphertext = sealed.ok_or_else(|| Status::internal("encryption failed"))?;
        let mut response = EncryptResponse { ciphertext, key_id, annotations: HashMap::new() };
        match script.encrypt {
            None => {}
            Some(EncryptFault::Error(code, message)) => return Err(Status::new(code, message)),
            Some(EncryptFault::WrongKeyId(id)) => response.key_id = id,
            Some(EncryptFault::CiphertextLength(length)) => response.ciphertext = vec![b'x'; length],
            Some(EncryptFault::Plaintext) => response.ciphertext = plaintext,
            Some(EncryptFault::Annotation(name, length)) => {
                response.annotations.insert(name, vec![b'x'; length]);
            }
        }
        self.state.count(|calls| calls.encrypted += 1);
        Ok(Response::new(response))
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        let script = self.state.delay_or_fail().await?;
        let DecryptRequest { ciphertext, key_id, .. } = request.into_inner();
        match script.decrypt {
            None => {}
            Some(DecryptFault::Error(code, message)) => return Err(Status::new(code, message)),
            Some(DecryptFault::WrongPlaintext) => {
                return Ok(Response::new(DecryptResponse { plaintext: b"another text".to_vec() }));
            }
        }
        let opened = {
            let keys = self.state.keys();
            if !keys.has(&key_id) {
                return Err(Status::not_found(format!("unknown key {key_id:?}")));
            }
            keys.open_sealed(&key_id, &ciphertext)
        };
        let plaintext =
            opened.ok_or_else(|| Status::invalid_argument("ciphertext was not encrypted by this plugin"))?;
        self.state.count(|calls| calls.decrypted += 1);
        Ok(Response::new(DecryptResponse { plaintext }))
    }
}
