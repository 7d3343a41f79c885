//! How a plugin answers, and what it was asked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::{Code, Status};

use super::keys::Keys;
use super::listener::Manner;

/// How a plugin answers. By default: well.
#[derive(Clone, Debug)]
pub struct Script {
    /// What Status says. Bytes, since it need not be text.
    pub healthz: Vec<u8>,
    /// The version that Status says.
    pub version: Vec<u8>,
    /// The key id that Status says, in place of the true one.
    pub key_id: Option<Vec<u8>>,
    /// Status says another key id at each call.
    pub key_id_changes: bool,
    /// How long every answer takes.
    pub latency: Duration,
    /// No answer ever comes.
    pub hang: bool,
    /// Every answer is this error.
    pub error: Option<(Code, String)>,
    /// It serves another service than that of KMS v2.
    pub other_service: bool,
    /// What Encrypt does wrong.
    pub encrypt: Option<EncryptFault>,
    /// What Decrypt does wrong.
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
            other_service: false,
            encrypt: None,
            decrypt: None,
        }
    }
}

/// What Encrypt does wrong.
#[derive(Clone, Debug)]
pub enum EncryptFault {
    /// It answers this error.
    Error(Code, String),
    /// It names another key than Status does.
    OtherKeyId(String),
    /// Its text has this many bytes.
    CiphertextOf(usize),
    /// It gives the text back as it was.
    Plaintext,
    /// It adds an annotation with a value of this many bytes.
    Annotation(String, usize),
}

/// What Decrypt does wrong.
#[derive(Clone, Debug)]
pub enum DecryptFault {
    /// It answers this error.
    Error(Code, String),
    /// It gives another text.
    OtherText,
}

/// What a plugin was asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How often Status was called, answered or not.
    pub status: u64,
    /// How many texts were encrypted.
    pub encrypted: u64,
    /// How many texts were decrypted.
    pub decrypted: u64,
    /// How many connections were accepted.
    pub accepted: u64,
}

/// What all connections of a plugin share.
#[derive(Debug)]
pub(super) struct Stage {
    script: Mutex<Script>,
    manner: Mutex<Manner>,
    calls: Mutex<Calls>,
    keys: Mutex<Keys>,
}

impl Stage {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            script: Mutex::default(),
            manner: Mutex::new(Manner::Serve),
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

    pub(super) fn manner(&self) -> Manner {
        lock(&self.manner).clone()
    }

    pub(super) fn change_manner(&self, manner: Manner) {
        *lock(&self.manner) = manner;
    }

    pub(super) fn calls(&self) -> Calls {
        *lock(&self.calls)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Calls)) {
        count(&mut lock(&self.calls));
    }

    pub(super) fn keys(&self) -> MutexGuard<'_, Keys> {
        lock(&self.keys)
    }

    /// What happens before any answer.
    pub(super) async fn before_answer(&self) -> Result<Script, Status> {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
