//! Caches for TokenReview and SubjectAccessReview results, and coalescing of identical lookups.

mod bounded;
mod digest;
mod single_flight;

pub(crate) use self::bounded::{BoundedCache, Limits};
pub(crate) use self::digest::{Digest, HmacKey};
pub(crate) use self::single_flight::SingleFlight;
