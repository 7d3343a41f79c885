//! The `outrigger` binary: one program, the role is the subcommand. Everything it does is in the library beside it.

use std::process::ExitCode;

/// Gives back what was needed for a moment. With the allocator of the C library, which does not, an operator that has set up a
/// fleet stays at twice the memory that it uses; how it is tuned is in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    outrigger::run()
}
