//! `outrigger kms-preflight-controller`: has a KMS configuration checked in a pod before a key is made for it, and writes what was
//! proved on the operator's resource.

mod act;
mod args;
mod pass;
mod record;
mod resource;
mod run;
mod world;

pub use self::args::{Args, Settings};
pub use self::run::{Error, run};
