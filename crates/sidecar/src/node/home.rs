//! Layout of the node's home directory.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::files;

/// The node key (P2P identity).
pub const NODE_KEY: &str = "config/node_key.json";
/// The genesis file.
pub const GENESIS: &str = "config/genesis.json";
/// The consensus key of a validator.
pub const CONSENSUS_KEY: &str = "config/priv_validator_key.json";
/// Directory of the node's gentx.
pub const GENTX: &str = "config/gentx";
/// Copy of the genesis file from before the gentxs were added.
pub const GENESIS_BASE: &str = "config/genesis-base.json";
/// Keyring with the account key of a validator.
pub const KEYRING: &str = "keyring-test";
/// The main config file.
pub const CONFIG: &str = "config/config.toml";
/// The chain data.
pub const DATA: &str = "data";
/// State-sync snapshots.
pub const SNAPSHOTS: &str = "data/snapshots";
/// Signing state of the validator.
pub const VALIDATOR_STATE: &str = "data/priv_validator_state.json";
/// Downloads in progress.
pub const TMP: &str = "tmp";
/// The height of the restored snapshot.
pub const SNAPSHOT_HEIGHT: &str = ".sei-sidecar-snapshot-height";
/// State file of snapshot uploads.
pub const LAST_UPLOAD: &str = ".sei-sidecar-last-upload.json";
/// State file of result exports.
pub const LAST_EXPORT: &str = ".sei-sidecar-last-export.json";

/// Written if there is no `config.toml` yet. Enough for config tasks, but not for starting seid.
const DEFAULT_CONFIG: &str = "\
[base]
mode = \"full\"

[p2p]
persistent-peers = \"\"
laddr = \"tcp://0.0.0.0:26656\"

[statesync]
enable = false

[consensus]
timeout-commit = \"5s\"

[mempool]
size = 5000
";

/// Locks a home for the lifetime of this process: two sidecars on one home would run every task twice.
pub fn lock(home: &Path) -> io::Result<File> {
    let dir = File::open(home)?;
    match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(dir),
        Err(Errno::WOULDBLOCK) => Err(io::Error::other("another sidecar is using it: stop that one first")),
        // The volume does not support locks: continue without.
        Err(Errno::NOTSUP | Errno::NOLCK) => Ok(dir),
        Err(error) => Err(error.into()),
    }
}

/// Directories with atomically written files.
const STAGING_DIRS: [&str; 6] = ["", "config", DATA, GENTX, KEYRING, TMP];

/// Creates the directories and files that tasks expect, and removes temporary files of a killed process: they may hold keys.
pub fn prepare(home: &Path) -> io::Result<()> {
    std::fs::create_dir_all(home.join("config"))?;
    std::fs::create_dir_all(home.join(DATA))?;
    for dir in STAGING_DIRS {
        files::remove_staged(&home.join(dir))?;
    }
    let config = home.join(CONFIG);
    if config.exists() { Ok(()) } else { files::write(&config, DEFAULT_CONFIG.as_bytes(), 0o644) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_lock_is_exclusive() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path()).unwrap();
        let refused = lock(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another sidecar is using it"), "{refused}");
        drop(first);
        lock(dir.path()).unwrap();
    }
}
