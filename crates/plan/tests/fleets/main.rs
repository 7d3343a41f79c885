//! Decisions about fleets on a fake cluster of nodes that start, fail and recover.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

mod cluster;

mod adoption;
mod children;
mod quorum;
mod revisions;
mod rollouts;
mod status;
