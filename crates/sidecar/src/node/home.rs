//! What is where in a node's home.

use std::io;
use std::path::Path;

use super::files;

/// The node's key.
pub const NODE_KEY: &str = "config/node_key.json";
/// The genesis file.
pub const GENESIS: &str = "config/genesis.json";
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

/// Makes what every task expects to be there.
pub fn prepare(home: &Path) -> io::Result<()> {
    std::fs::create_dir_all(home.join("config"))?;
    std::fs::create_dir_all(home.join(DATA))?;
    let config = home.join(CONFIG);
    if config.exists() { Ok(()) } else { files::write(&config, FIRST_CONFIG.as_bytes(), 0o644) }
}
