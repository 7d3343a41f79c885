//! Rollup tests with a simulated clock.

mod agreement;
mod cleanup;
mod degraded;
mod message;
mod simulation;
mod time;
