//! Tests of keys, accounts, gentxs and genesis files against test vectors verified with seid.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

mod accounts;
mod assemble;
mod ceremony;
mod gentx;
mod keyring;
mod keys;
mod peers;
mod validation;
