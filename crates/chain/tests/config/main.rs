//! Tests of node configuration: rendering, incremental changes, validation, patches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

mod apply;
mod fixture;
mod generated;
mod incremental;
mod operator;
mod patch;
mod properties;
mod reload;
mod table;
mod validation;
mod values;
