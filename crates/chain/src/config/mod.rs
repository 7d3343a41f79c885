//! A node's settings: `config.toml` and `app.toml`, resolved by one table.

mod document;
mod error;
mod finding;
mod host;
mod intent;
mod mode;
mod network_rules;
mod patch;
mod present;
mod presets;
mod render;
mod rules;
mod seid_rules;
mod settings;
pub mod table;
mod value;

pub use document::FileError;
pub use error::ConfigError;
pub use finding::{Finding, Severity, usable};
pub use host::Host;
pub use intent::{Intent, Report, Resolved, check_intent, edit, reload, resolve, validate};
pub use mode::{Mode, UnknownMode};
pub use patch::{PatchError, Patchable, client_with_chain, patch};
pub use present::unknown_keys;
pub use presets::{persistent_peers, snapshot_generation, with_persistent_peers};
pub use render::render;
pub use rules::check;
pub use settings::{CURRENT_VERSION, Files, Settings};
pub use value::{Unfit, Value};
