//! Decisions about nodes on a fake cluster: plans, edits, failures and lifecycle, and a model check over all orders of
//! events.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

mod certificate;
mod cluster;
mod faults;
mod fixture;
mod history;
mod reconcile;
mod safety;

mod budget;
mod dry_run;
mod edits;
mod exclusive;
mod failures;
mod isolation;
mod lifecycle;
mod model;
mod plans;
mod references;
mod retention;
mod rollback;
mod tls;
mod volume;
