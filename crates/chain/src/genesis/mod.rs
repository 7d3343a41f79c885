//! The document that a chain begins with.

mod accounts;
mod assemble;
mod document;
mod known;
mod overrides;
mod peers;
mod validators;

pub use accounts::{NewAccount, Vesting};
pub use assemble::{Assembled, Ceremony, Participant, assemble};
pub use document::{Genesis, GenesisError};
pub use known::{KNOWN, Known};
pub use overrides::OverrideError;
pub(crate) use peers::is_node_id;
pub use peers::{PeersError, node_id_of, others, peers_document};
