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
pub use known_chains::{KNOWN, KnownChain};
pub use overrides::OverrideError;
pub(crate) use peers::is_node_id;
pub use peers::{PeersError, node_id_of, others, peers_document};
