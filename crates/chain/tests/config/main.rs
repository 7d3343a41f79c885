//! The scenarios of a node's configuration. The number in a doc comment is the scenario's.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

mod apply;
mod generated;
mod incremental;
mod node;
mod operator;
mod patch;
mod properties;
mod refused;
mod reload;
mod table;
mod values;
