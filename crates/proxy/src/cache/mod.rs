//! What is remembered of the API server's answers, and how many ask it the same at once: one.

mod bounded;
mod digest;
mod lookups;

pub(crate) use self::bounded::{Bounded, Limits};
pub(crate) use self::digest::{Digest, Secret};
pub(crate) use self::lookups::Lookups;
