//! The rollup over a simulated clock.

mod agreement;
mod cleanup;
mod rows;
mod text;
mod time;
mod world;
