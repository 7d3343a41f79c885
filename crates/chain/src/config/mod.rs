//! Settings of a node: `config.toml` and `app.toml`, resolved from one table.

mod current;
mod document;
mod error;
mod finding;
mod host;
mod intent;
mod mode;
mod network_rules;
mod patch;
mod presets;
mod render;
mod rules;
mod seid_rules;
mod settings;
pub mod table;
mod value;

pub use current::unknown_keys;
pub use document::FileError;
pub use error::ConfigError;
pub use finding::{Finding, Severity, is_usable};
pub use host::Host;
pub use intent::{Intent, Resolved, ValidationReport, check_intent, edit, reload, resolve, validate};
pub use mode::{Mode, UnknownMode};
pub use network_rules::is_peer_address;
pub use patch::{PatchError, Patchable, patch, set_client_chain_id};
pub use presets::{persistent_peers, seid_mode, set_persistent_peers, snapshot_generation};
pub use render::render;
pub use rules::check;
pub use settings::{CURRENT_VERSION, Files, Settings};
pub use value::{InvalidValue, Value};
