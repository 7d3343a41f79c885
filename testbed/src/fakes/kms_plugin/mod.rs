//! A real KMS v2 plugin: AES-256-GCM with keys on disk, on a Unix socket. It can be told at any time to be sick, in every way
//! in which plugins are.
//!
//! ```no_run
//! # use testbed::kms_plugin::{KmsPlugin, Manner};
//! # async fn example(folder: &std::path::Path) -> testbed::Result<()> {
//! let plugin = KmsPlugin::start("kms-1", folder)?;
//! plugin.script(|script| script.healthz = b"the vault is sealed".to_vec());
//! plugin.meet(Manner::Close);
//! plugin.crash();
//! plugin.restart()?;
//! plugin.heal()?;
//! # Ok(()) }
//! ```

mod keys;
mod listener;
mod script;
mod service;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use self::listener::Manner;
pub use self::script::{Calls, DecryptFault, EncryptFault, Script};

use self::keys::Keys;
use self::listener::Listener;
use self::script::Stage;
use crate::cluster::control_plane::KmsProvider;
use crate::error::{IoContext, Result};

mod interface {
    #![allow(missing_docs, clippy::all, reason = "generated from the interface definition")]
    tonic::include_proto!("v2");
}

/// A running plugin; it stops listening when dropped. Its keys stay: who starts it again in the same folder gets them back.
#[derive(Debug)]
pub struct KmsPlugin {
    name: String,
    socket: PathBuf,
    stage: Arc<Stage>,
    listener: Mutex<Option<Listener>>,
}

impl KmsPlugin {
    /// Listens on the socket `name.sock` in `folder`, with the keys that a plugin of this name left there, or with a new one.
    pub fn start(name: &str, folder: &Path) -> Result<Self> {
        let keys = Keys::open(name, folder.join(format!("{name}.keys")))?;
        let socket = folder.join(format!("{name}.sock"));
        let stage = Arc::new(Stage::new(keys));
        let plugin = Self { name: name.into(), socket, stage, listener: Mutex::default() };
        plugin.restart()?;
        Ok(plugin)
    }

    /// What kube-apiserver needs to know of it.
    #[must_use]
    pub fn provider(&self) -> KmsProvider {
        KmsProvider { name: self.name.clone(), socket: self.socket.clone() }
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// How many texts it has encrypted.
    #[must_use]
    pub fn encrypted(&self) -> u64 {
        self.calls().encrypted
    }

    /// How many texts it has decrypted.
    #[must_use]
    pub fn decrypted(&self) -> u64 {
        self.calls().decrypted
    }

    /// What it was asked so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.stage.calls()
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.listener().as_ref().map_or(0, Listener::connections)
    }

    /// Id of the key that it encrypts with.
    #[must_use]
    pub fn key_id(&self) -> String {
        self.stage.keys().current_id()
    }

    /// Changes how it answers, from the next call on.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        self.stage.change(change);
    }

    /// Changes how it meets connections, from the next one on. Those that are open are cut.
    pub fn meet(&self, manner: Manner) {
        self.stage.change_manner(manner);
        if let Some(listener) = self.listener().as_ref() {
            listener.cut();
        }
    }

    /// Encrypts with a new key from here on, and returns its id. What was encrypted before stays readable.
    pub fn rotate(&self) -> Result<String> {
        self.stage.keys().rotate()
    }

    /// Ends as a killed process does: its connections are cut, and its socket stays behind without a listener.
    pub fn crash(&self) {
        drop(self.listener().take());
    }

    /// Ends in order: the socket goes too.
    pub fn stop(&self) {
        self.crash();
        self.remove_socket();
    }

    /// Removes the socket's file. It goes on listening: whoever is connected stays so, and nobody else can connect.
    pub fn remove_socket(&self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.socket);
    }

    /// Starts it (again): another process would find the keys on disk, and a new file as socket.
    pub fn restart(&self) -> Result<()> {
        self.crash();
        // A file that a killed plugin left keeps the next one from listening.
        self.remove_socket();
        *self.listener() = Some(Listener::bind(&self.socket, &self.stage)?);
        Ok(())
    }

    /// Gives the socket another mode, such as `0o000`. The superuser may open it nevertheless.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        fs::set_permissions(&self.socket, fs::Permissions::from_mode(mode))
            .context(|| format!("changing the mode of {}", self.socket.display()))
    }

    /// Makes it well: as it was started.
    pub fn heal(&self) -> Result<()> {
        self.script(|script| *script = Script::default());
        self.stage.change_manner(Manner::Serve);
        self.restart()
    }

    fn listener(&self) -> std::sync::MutexGuard<'_, Option<Listener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
