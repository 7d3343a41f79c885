//! The calls of KMS v2, as the script has them.

use std::collections::HashMap;
use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::interface::key_management_service_server::KeyManagementService;
use super::interface::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use super::script::{DecryptFault, EncryptFault, Stage};

/// The plugin, as one connection sees it.
#[derive(Clone, Debug)]
pub(super) struct Aes {
    pub(super) stage: Arc<Stage>,
}

#[tonic::async_trait]
impl KeyManagementService for Aes {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.stage.count(|calls| calls.status += 1);
        let script = self.stage.before_answer().await?;
        let mut key_id = script.key_id.unwrap_or_else(|| self.stage.keys().current_id().into_bytes());
        if script.key_id_changes {
            key_id.extend(format!("-{}", self.stage.calls().status).into_bytes());
        }
        Ok(Response::new(StatusResponse { version: script.version, healthz: script.healthz, key_id }))
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        let script = self.stage.before_answer().await?;
        let EncryptRequest { plaintext, .. } = request.into_inner();
        let (sealed, key_id) = {
            let keys = self.stage.keys();
            (keys.seal(plaintext.clone()), keys.current_id())
        };
        let ciphertext = sealed.ok_or_else(|| Status::internal("the text could not be sealed"))?;
        let mut answer = EncryptResponse { ciphertext, key_id, annotations: HashMap::new() };
        match script.encrypt {
            None => {}
            Some(EncryptFault::Error(code, message)) => return Err(Status::new(code, message)),
            Some(EncryptFault::OtherKeyId(id)) => answer.key_id = id,
            Some(EncryptFault::CiphertextOf(length)) => answer.ciphertext = vec![b'x'; length],
            Some(EncryptFault::Plaintext) => answer.ciphertext = plaintext,
            Some(EncryptFault::Annotation(name, length)) => {
                answer.annotations.insert(name, vec![b'x'; length]);
            }
        }
        self.stage.count(|calls| calls.encrypted += 1);
        Ok(Response::new(answer))
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        let script = self.stage.before_answer().await?;
        let DecryptRequest { ciphertext, key_id, .. } = request.into_inner();
        match script.decrypt {
            None => {}
            Some(DecryptFault::Error(code, message)) => return Err(Status::new(code, message)),
            Some(DecryptFault::OtherText) => {
                return Ok(Response::new(DecryptResponse { plaintext: b"another text".to_vec() }));
            }
        }
        let opened = {
            let keys = self.stage.keys();
            if !keys.has(&key_id) {
                return Err(Status::not_found(format!("there is no key {key_id:?}")));
            }
            keys.open_sealed(&key_id, &ciphertext)
        };
        let plaintext =
            opened.ok_or_else(|| Status::invalid_argument("this was not sealed by this plugin"))?;
        self.stage.count(|calls| calls.decrypted += 1);
        Ok(Response::new(DecryptResponse { plaintext }))
    }
}
