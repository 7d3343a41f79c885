//! Snapshot archives (`tar.gz`) from untrusted sources.

mod name;
mod pack;
mod unpack;

pub use self::pack::pack;
pub use self::unpack::{Limits, UnpackError, Unpacked, unpack};
