//! Size of the benchmark. Published figures use the defaults; smaller sizes are for quick runs.

use testbed::Error;
use testbed::bench::env_count;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A single reporter.
    Single,
    /// Crowds that the peer supports, too.
    Crowds,
    /// The largest crowds.
    Largest,
    /// Very many rounds of one reporter.
    Endurance,
}

impl Part {
    const ALL: [(&str, Self); 4] = [
        ("alone", Self::Single),
        ("crowds", Self::Crowds),
        ("largest", Self::Largest),
        ("endurance", Self::Endurance),
    ];
}

/// Size of the benchmark.
pub struct Settings {
    /// Repetitions, each with ours and then the peer.
    pub rounds: usize,
    /// Rounds of the endurance measurement.
    pub cycles: usize,
    /// Number of reporters in the largest crowd.
    pub largest: usize,
    parts: Vec<Part>,
}

impl Settings {
    /// Reads `OUTRIGGER_BENCH_ROUNDS`, `OUTRIGGER_BENCH_CYCLES`, `OUTRIGGER_BENCH_REPORTERS` and `OUTRIGGER_BENCH_PARTS`.
    pub fn from_environment() -> Result<Self, Error> {
        Ok(Self {
            rounds: env_count("OUTRIGGER_BENCH_ROUNDS", 5)?,
            cycles: env_count("OUTRIGGER_BENCH_CYCLES", 20_000)?,
            largest: env_count("OUTRIGGER_BENCH_REPORTERS", 500)?.min(api::kms::MAX_REPORTS),
            parts: parts()?,
        })
    }

    /// Reports whether a part is enabled.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Returns the sizes by the names they are saved under.
    pub fn sizes(&self) -> [(&'static str, usize); 3] {
        [("rounds", self.rounds), ("cycles", self.cycles), ("largest_crowd", self.largest)]
    }
}

/// Returns the parts in `OUTRIGGER_BENCH_PARTS`, or all.
fn parts() -> Result<Vec<Part>, Error> {
    let Ok(text) = std::env::var("OUTRIGGER_BENCH_PARTS") else {
        return Ok(Part::ALL.map(|(_, part)| part).to_vec());
    };
    let find = |name: &str| Part::ALL.iter().find(|(known, _)| *known == name).map(|(_, part)| *part);
    text.split(',')
        .map(|name| {
            find(name).ok_or_else(|| {
                let names = Part::ALL.map(|(known, _)| known).join(",");
                Error::Other(format!("invalid OUTRIGGER_BENCH_PARTS {name:?}: expected {names}"))
            })
        })
        .collect()
}
