//! `outrigger kms-preflight-controller`: checks a KMS configuration in pods before a key is created for it, and stores the result in the
//! operator resource.

mod args;
mod observe;
mod operator_resource;
mod reconcile;
mod run;
mod status;
mod workload;

pub use self::args::{Args, Settings};
pub use self::run::run;
