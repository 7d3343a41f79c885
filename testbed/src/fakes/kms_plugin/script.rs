//! Scripted responses of a plugin, and counters of its calls.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tonic::{Code, Status};

use super::keys::Keys;
use super::listener::ConnectionBehavior;
use crate::sync::lock;

/// Responses of a plugin; healthy by default.
#[derive(Clone, Debug)]
pub struct Script {
    /// `healthz` in Status. Bytes, because a broken plugin may send invalid UTF-8.
    pub healthz: Vec<u8>,
    /// `version` in Status.
    pub version: Vec<u8>,
    /// `key_id` in Status, instead of the current key.
    pub key_id: Option<Vec<u8>>,
    /// Status returns a different key ID on each call.
    pub key_id_changes: bool,
    /// Latency of every response.
    pub latency: Duration,
    /// Never responds.
    pub hang: bool,
    /// Every call fails with this error.
    pub error: Option<(Code, String)>,
    /// Serves another gRPC service than KMS v2.
    pub wrong_service: bool,
    /// Fault of Encrypt.
    pub encrypt: Option<EncryptFault>,
    /// Fault of Decrypt.
    pub decrypt: Option<DecryptFault>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            healthz: b"ok".to_vec(),
            version: b"v2".to_vec(),
            key_id: None,
            key_id_changes: false,
            latency: Duration::ZERO,
            hang: false,
            error: None,
            wrong_service: false,
            encrypt: None,
            decrypt: None,
        }
    }
}

/// Fault of Encrypt.
#[derive(Clone, Debug)]
pub enum EncryptFault {
    /// Fails with this error.
    Error(Code, String),
    /// Returns another key ID than Status.
    WrongKeyId(String),
    /// Returns a ciphertext of this length.
    CiphertextLength(usize),
    /// Returns the plaintext unencrypted.
    Plaintext,
    /// Adds an annotation with a value of this length.
    Annotation(String, usize),
}

/// Fault of Decrypt.
#[derive(Clone, Debug)]
pub enum DecryptFault {
    /// Fails with this error.
    Error(Code, String),
    /// Returns a wrong plaintext.
    WrongPlaintext,
}

/// Call counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Status calls, including unanswered ones.
    pub status: u64,
    /// Completed Encrypt calls.
    pub encrypted: u64,
    /// Completed Decrypt calls.
    pub decrypted: u64,
    /// Accepted connections.
    pub accepted: u64,
}

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct PluginState {
    script: Mutex<Script>,
    manner: Mutex<ConnectionBehavior>,
    calls: Mutex<CallCounts>,
    keys: Mutex<Keys>,
}

impl PluginState {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            script: Mutex::default(),
            manner: Mutex::new(ConnectionBehavior::Serve),
            calls: Mutex::default(),
            keys: Mutex::new(keys),
        }
    }

    pub(super) fn script(&self) -> Script {
        lock(&self.script).clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut lock(&self.script));
    }

    pub(super) fn manner(&self) -> ConnectionBehavior {
        lock(&self.manner).clone()
    }

    pub(super) fn set_manner(&self, manner: ConnectionBehavior) {
        *lock(&self.manner) = manner;
    }

    pub(super) fn calls(&self) -> CallCounts {
        *lock(&self.calls)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut CallCounts)) {
        count(&mut lock(&self.calls));
    }

    pub(super) fn keys(&self) -> MutexGuard<'_, Keys> {
        lock(&self.keys)
    }

    /// Applies hang, latency and error, which precede any response.
    pub(super) async fn delay_or_fail(&self) -> Result<Script, Status> {
        let script = self.script();
        if script.hang {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(script.latency).await;
        match script.error {
            Some((code, message)) => Err(Status::new(code, message)),
            None => Ok(script),
        }
    }
}
