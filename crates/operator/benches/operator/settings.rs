//! How much is measured. The defaults are what figures are published by; smaller ones are for a quick look.

use testbed::Error;
use testbed::bench::number;

/// How much is measured.
pub struct Settings {
    /// Nodes that are brought to Running.
    pub nodes: usize,
    /// Edits of the image of a running node.
    pub edits: usize,
    /// Rounds, each of ours and then of the peer.
    pub rounds: usize,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_NODES`, `OUTRIGGER_BENCH_EDITS` and `OUTRIGGER_BENCH_ROUNDS`.
    pub fn from_environment() -> Result<Self, Error> {
        let nodes = number("OUTRIGGER_BENCH_NODES", 1_000)?;
        let edits = number("OUTRIGGER_BENCH_EDITS", 200)?.min(nodes);
        Ok(Self { nodes, edits, rounds: number("OUTRIGGER_BENCH_ROUNDS", 5)? })
    }

    /// The same, with the names that figures are kept under.
    pub fn sizes(&self) -> [(&'static str, usize); 3] {
        [("nodes", self.nodes), ("edits", self.edits), ("rounds", self.rounds)]
    }
}
