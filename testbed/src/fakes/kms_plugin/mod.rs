//! A working KMS v2 plugin (AES-256-GCM with keys on disk) on a Unix socket, which can be made to fail in every way
//! that plugins fail.
//!
//! ```no_run
//! # use testbed::fakes::kms_plugin::{FakeKmsPlugin, ConnectionBehavior};
//! # async fn example(folder: &std::path::Path) -> testbed::Result<()> {
//! let plugin = FakeKmsPlugin::start("kms-1", folder)?;
//! plugin.script(|script| script.healthz = b"the vault is sealed".to_vec());
//! plugin.set_connection_behavior(ConnectionBehavior::Close);
//! plugin.crash();
//! plugin.restart()?;
//! plugin.recover()?;
//! # Ok(()) }
//! ```

mod keys;
mod listener;
mod script;
mod service;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use self::listener::ConnectionBehavior;
pub use self::script::{CallCounts, DecryptFault, EncryptFault, Script};

use self::keys::Keys;
use self::listener::Listener;
use self::script::PluginState;
use crate::cluster::control_plane::KmsProvider;
use crate::error::{IoContext, Result};
use crate::sync::lock;

mod interface {
    #![allow(missing_docs, clippy::all, reason = "generated from the interface definition")]
    tonic::include_proto!("v2");
}

/// A running plugin; it stops listening when dropped. Its keys stay in the directory and are loaded by the next
/// start.
#[derive(Debug)]
pub struct FakeKmsPlugin {
    name: String,
    socket: PathBuf,
    state: Arc<PluginState>,
    listener: Mutex<Option<Listener>>,
}

impl FakeKmsPlugin {
    /// Listens on `name.sock` in `folder`, with the keys of an earlier plugin of this name or a new key.
    pub fn start(name: &str, folder: &Path) -> Result<Self> {
        let keys = Keys::open(name, folder.join(format!("{name}.keys")))?;
        let socket = folder.join(format!("{name}.sock"));
        let state = Arc::new(PluginState::new(keys));
        let plugin = Self { name: name.into(), socket, state, listener: Mutex::default() };
        plugin.restart()?;
        Ok(plugin)
    }

    /// Returns the provider configuration for kube-apiserver.
    #[must_use]
    pub fn provider(&self) -> KmsProvider {
        KmsProvider { name: self.name.clone(), socket: self.socket.clone() }
    }

    /// Returns the socket path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the number of encryptions.
    #[must_use]
    pub fn encrypted(&self) -> u64 {
        self.calls().encrypted
    }

    /// Returns the number of decryptions.
    #[must_use]
    pub fn decrypted(&self) -> u64 {
        self.calls().decrypted
    }

    /// Returns all call counters.
    #[must_use]
    pub fn calls(&self) -> CallCounts {
        self.state.calls()
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.listener().as_ref().map_or(0, Listener::open_connections)
    }

    /// Returns the ID of the current key.
    #[must_use]
    pub fn key_id(&self) -> String {
        self.state.keys().current_id()
    }

    /// Changes the responses from the next call on.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        self.state.change(change);
    }

    /// Changes the behavior towards new connections and closes the open ones.
    pub fn set_connection_behavior(&self, manner: ConnectionBehavior) {
        self.state.set_manner(manner);
        if let Some(listener) = self.listener().as_ref() {
            listener.close_all();
        }
    }

    /// Rotates to a new key and returns its ID. Older ciphertexts stay readable.
    pub fn rotate_key(&self) -> Result<String> {
        self.state.keys().rotate()
    }

    /// Stops like a killed process: connections are closed, and the socket file stays behind without a listener.
    pub fn crash(&self) {
        drop(self.listener().take());
    }

    /// Stops cleanly and removes the socket file.
    pub fn stop(&self) {
        self.crash();
        self.remove_socket();
    }

    /// Removes the socket file but keeps listening: open connections stay, new ones fail.
    pub fn remove_socket(&self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.socket);
    }

    /// Starts or restarts, like a new process: same keys, new socket file.
    pub fn restart(&self) -> Result<()> {
        self.crash();
        // A stale socket file would make the bind fail.
        self.remove_socket();
        *self.listener() = Some(Listener::bind(&self.socket, &self.state)?);
        Ok(())
    }

    /// Sets the mode of the socket, such as `0o000`. Root can open it regardless.
    pub fn set_socket_mode(&self, mode: u32) -> Result<()> {
        fs::set_permissions(&self.socket, fs::Permissions::from_mode(mode))
            .context(|| format!("changing mode of {}", self.socket.display()))
    }

    /// Restores the default behavior and restarts.
    pub fn recover(&self) -> Result<()> {
        self.script(|script| *script = Script::default());
        self.state.set_manner(ConnectionBehavior::Serve);
        self.restart()
    }

    fn listener(&self) -> std::sync::MutexGuard<'_, Option<Listener>> {
        lock(&self.listener)
    }
}
