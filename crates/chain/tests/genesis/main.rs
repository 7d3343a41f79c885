//! Identities, accounts, gentxs and genesis documents: vectors that were checked with seid, and what is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

mod accounts;
mod assemble;
mod ceremony;
mod gentx;
mod keyring;
mod keys;
mod peers;
mod refused;
