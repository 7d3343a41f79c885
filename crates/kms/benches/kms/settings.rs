//! How much is measured. The defaults are what figures are published by; smaller ones are for a quick look.

use testbed::Error;
use testbed::bench::number;

/// How much is measured.
pub struct Settings {
    /// Rounds, each of ours and then of the peer.
    pub rounds: usize,
    /// Cycles of one reporter whose memory is to stay flat.
    pub cycles: usize,
    /// Reporters of the largest crowd.
    pub largest: usize,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_ROUNDS`, `OUTRIGGER_BENCH_CYCLES` and `OUTRIGGER_BENCH_REPORTERS`.
    pub fn from_environment() -> Result<Self, Error> {
        Ok(Self {
            rounds: number("OUTRIGGER_BENCH_ROUNDS", 5)?,
            cycles: number("OUTRIGGER_BENCH_CYCLES", 20_000)?,
            largest: number("OUTRIGGER_BENCH_REPORTERS", 500)?.min(api::kms::MAX_REPORTS),
        })
    }

    /// The same, with the names that figures are kept under.
    pub fn sizes(&self) -> [(&'static str, usize); 3] {
        [("rounds", self.rounds), ("cycles", self.cycles), ("largest_crowd", self.largest)]
    }
}
