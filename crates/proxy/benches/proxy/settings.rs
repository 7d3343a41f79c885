//! How much is measured. The defaults are what figures are published by; smaller ones are for a quick look.

use testbed::Error;
use testbed::bench::number;

/// How much is measured.
pub struct Settings {
    /// Rounds, in each of which everybody does everything.
    pub rounds: usize,
    /// Seconds of each measurement.
    pub seconds: usize,
    /// Callers of whom each has a token of its own.
    pub users: usize,
    /// Connections that stand idle.
    pub idle: usize,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_ROUNDS`, `OUTRIGGER_BENCH_SECONDS`, `OUTRIGGER_BENCH_USERS` and `OUTRIGGER_BENCH_IDLE`.
    pub fn from_environment() -> Result<Self, Error> {
        Ok(Self {
            rounds: number("OUTRIGGER_BENCH_ROUNDS", 5)?,
            seconds: number("OUTRIGGER_BENCH_SECONDS", 3)?,
            users: number("OUTRIGGER_BENCH_USERS", 10_000)?,
            idle: number("OUTRIGGER_BENCH_IDLE", 1_000)?,
        })
    }

    /// The same, with the names that figures are kept under.
    pub fn sizes(&self) -> [(&'static str, usize); 4] {
        [
            ("rounds", self.rounds),
            ("seconds", self.seconds),
            ("users", self.users),
            ("idle_connections", self.idle),
        ]
    }
}
