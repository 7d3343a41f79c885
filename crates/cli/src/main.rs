//! The `outrigger` binary. See the library of this crate.

use std::process::ExitCode;

/// jemalloc returns unused memory to the kernel. With the glibc allocator, the operator keeps twice the memory it uses after
/// creating a fleet. Tuning is in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    outrigger::run()
}
