//! How much is measured. The defaults are what figures are published by; smaller ones are for a quick look.

use testbed::Error;
use testbed::bench::number;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One reporter.
    Alone,
    /// Crowds as the peer can be, too.
    Crowds,
    /// The largest crowds.
    Largest,
    /// Very many cycles.
    Endurance,
}

impl Part {
    const ALL: [(&str, Self); 4] = [
        ("alone", Self::Alone),
        ("crowds", Self::Crowds),
        ("largest", Self::Largest),
        ("endurance", Self::Endurance),
    ];
}

/// How much is measured.
pub struct Settings {
    /// Rounds, each of ours and then of the peer.
    pub rounds: usize,
    /// Cycles of one reporter whose memory is to stay flat.
    pub cycles: usize,
    /// Reporters of the largest crowd.
    pub largest: usize,
    parts: Vec<Part>,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_ROUNDS`, `OUTRIGGER_BENCH_CYCLES`, `OUTRIGGER_BENCH_REPORTERS` and `OUTRIGGER_BENCH_PARTS`.
    pub fn from_environment() -> Result<Self, Error> {
        Ok(Self {
            rounds: number("OUTRIGGER_BENCH_ROUNDS", 5)?,
            cycles: number("OUTRIGGER_BENCH_CYCLES", 20_000)?,
            largest: number("OUTRIGGER_BENCH_REPORTERS", 500)?.min(api::kms::MAX_REPORTS),
            parts: parts()?,
        })
    }

    /// Whether a part is measured.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The same, with the names that figures are kept under.
    pub fn sizes(&self) -> [(&'static str, usize); 3] {
        [("rounds", self.rounds), ("cycles", self.cycles), ("largest_crowd", self.largest)]
    }
}

/// All parts, or those that are named with commas between.
fn parts() -> Result<Vec<Part>, Error> {
    let Ok(text) = std::env::var("OUTRIGGER_BENCH_PARTS") else {
        return Ok(Part::ALL.map(|(_, part)| part).to_vec());
    };
    let known = |word: &str| Part::ALL.iter().find(|(name, _)| *name == word).map(|(_, part)| *part);
    text.split(',')
        .map(|word| {
            known(word).ok_or_else(|| {
                let words = Part::ALL.map(|(name, _)| name).join(",");
                Error::Refused(format!("OUTRIGGER_BENCH_PARTS has {word:?}: it must be of {words}"))
            })
        })
        .collect()
}
