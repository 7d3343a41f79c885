//! What is where in a node's home.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::files;

/// The node's key.
pub const NODE_KEY: &str = "config/node_key.json";
/// The genesis file.
pub const GENESIS: &str = "config/genesis.json";
/// The key that a validator signs blocks with.
pub const CONSENSUS_KEY: &str = "config/priv_validator_key.json";
/// What the node declared when its chain began.
pub const GENTX: &str = "config/gentx";
/// The genesis file as it was before everybody's declarations were put into it.
pub const GENESIS_BASE: &str = "config/genesis-base.json";
/// The key of a validator's account.
pub const KEYRING: &str = "keyring-test";
/// The settings of the node.
pub const CONFIG: &str = "config/config.toml";
/// The chain's data.
pub const DATA: &str = "data";
/// Snapshots of the chain's state.
pub const SNAPSHOTS: &str = "data/snapshots";
/// What a validator has signed last.
pub const VALIDATOR_STATE: &str = "data/priv_validator_state.json";
/// Downloads that are under way.
pub const TMP: &str = "tmp";
/// The height of the archive that was restored.
pub const SNAPSHOT_HEIGHT: &str = ".sei-sidecar-snapshot-height";
/// The snapshot that was uploaded last.
pub const LAST_UPLOAD: &str = ".sei-sidecar-last-upload.json";
/// The block that was exported last.
pub const LAST_EXPORT: &str = ".sei-sidecar-last-export.json";

/// A node whose settings nobody has written yet can be configured, but not started.
const FIRST_CONFIG: &str = "\
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

/// Takes a home for this process, until it ends however: two sidecars on one home would do every task twice.
pub fn take(home: &Path) -> io::Result<File> {
    let folder = File::open(home)?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(Errno::WOULDBLOCK) => Err(io::Error::other("another sidecar works on it: end that first")),
        // Volumes that know no locks are not shared by this way either.
        Err(Errno::NOTSUP | Errno::NOLCK) => Ok(folder),
        Err(error) => Err(error.into()),
    }
}

/// Folders in which files are written as a whole.
const WRITTEN: [&str; 6] = ["", "config", DATA, GENTX, KEYRING, TMP];

/// Makes what every task expects to be there, and removes what a killed process has left unplaced: it may hold keys.
pub fn prepare(home: &Path) -> io::Result<()> {
    std::fs::create_dir_all(home.join("config"))?;
    std::fs::create_dir_all(home.join(DATA))?;
    for folder in WRITTEN {
        files::sweep(&home.join(folder))?;
    }
    let config = home.join(CONFIG);
    if config.exists() { Ok(()) } else { files::write(&config, FIRST_CONFIG.as_bytes(), 0o644) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_sidecar_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path()).unwrap();
        let refused = take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another sidecar works on it"), "{refused}");
        drop(first);
        take(dir.path()).unwrap();
    }
}
