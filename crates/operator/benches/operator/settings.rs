//! Sizes of the benchmark. Published figures use the defaults; smaller sizes are for a quick check.

use testbed::Error;
use testbed::bench::env_count;

/// Sizes of the benchmark.
pub struct Settings {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of image edits of running nodes.
    pub edits: usize,
    /// Number of rounds of each candidate.
    pub rounds: usize,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_NODES`, `OUTRIGGER_BENCH_EDITS` and `OUTRIGGER_BENCH_ROUNDS`.
    pub fn from_environment() -> Result<Self, Error> {
        let nodes = env_count("OUTRIGGER_BENCH_NODES", 1_000)?;
        let edits = env_count("OUTRIGGER_BENCH_EDITS", 200)?.min(nodes);
        Ok(Self { nodes, edits, rounds: env_count("OUTRIGGER_BENCH_ROUNDS", 5)? })
    }

    /// Returns the sizes with their names in the results file.
    pub fn sizes(&self) -> [(&'static str, usize); 3] {
        [("nodes", self.nodes), ("edits", self.edits), ("rounds", self.rounds)]
    }
}
