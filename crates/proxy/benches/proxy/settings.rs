//! Size of the benchmark. Published figures use the defaults; smaller values are for quick checks.

use testbed::Error;
use testbed::bench::env_count;

/// Size of the benchmark.
pub struct Settings {
    /// Rounds; each one measures everything.
    pub rounds: usize,
    /// Duration of each measurement in seconds.
    pub seconds: usize,
    /// Callers, each with its own token.
    pub users: usize,
    /// Idle connections.
    pub idle: usize,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_ROUNDS`, `OUTRIGGER_BENCH_SECONDS`, `OUTRIGGER_BENCH_USERS` and `OUTRIGGER_BENCH_IDLE`.
    pub fn from_environment() -> Result<Self, Error> {
        Ok(Self {
            rounds: env_count("OUTRIGGER_BENCH_ROUNDS", 5)?,
            seconds: env_count("OUTRIGGER_BENCH_SECONDS", 3)?,
            users: env_count("OUTRIGGER_BENCH_USERS", 10_000)?,
            idle: env_count("OUTRIGGER_BENCH_IDLE", 1_000)?,
        })
    }

    /// Returns the sizes with the names they are stored under.
    pub fn sizes(&self) -> [(&'static str, usize); 4] {
        [
            ("rounds", self.rounds),
            ("seconds", self.seconds),
            ("users", self.users),
            ("idle_connections", self.idle),
        ]
    }
}
