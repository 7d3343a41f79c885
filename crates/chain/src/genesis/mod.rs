//! Genesis files.

mod accounts;
mod assemble;
mod document;
mod known_chains;
mod overrides;
mod peers;
mod validators;

pub use accounts::{NewAccount, Vesting};
pub use assemble::{Assembled, Ceremony, Participant, assemble};
pub use document::{Genesis, GenesisError};
pub use known_chains::{KNOWN_CHAINS, KnownChain};
pub use overrides::OverrideError;
pub(crate) use peers::is_node_id;
pub use peers::{PeersError, parse_node_id, peers_except, render_peers};
