//! Decisions about fleets. A rollout is derived in every reconcile from the desired revision and the revision of each node; nothing
//! about it has to be repaired after an edit or a crash.

mod availability;
mod budget;
mod child;
mod conditions;
mod decide;
mod events;
mod observed;
mod quorum;
mod revision;
mod rollout;
mod services;
mod status;

pub use child::{node_name, ownership, render};
pub use decide::{Action, Decision, decide};
pub use events::transition_events;
pub use observed::{ChainValidator, Observed};
pub use revision::{Revision, revision_hash};
pub use services::{external_service, internal_service};
