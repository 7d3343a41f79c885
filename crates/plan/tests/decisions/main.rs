//! Decisions about nodes, on an abstract cluster: plans, edits, failures and stories, and all of them in every order.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

mod certificate;
mod cluster;
mod operator;
mod specimen;

mod edits;
mod failures;
mod model;
mod plans;
mod stories;
