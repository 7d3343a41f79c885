//! Archives of snapshots: `tar.gz`, made by somebody else.

mod name;
mod pack;
mod unpack;

pub use self::pack::pack;
pub use self::unpack::{Limits, UnpackError, Unpacked, unpack};
