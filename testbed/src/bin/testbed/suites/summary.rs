//! The counts of all binaries, and a table of the slowest ones.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use testbed::{Error, Result};

/// How many of the slowest binaries are listed.
const LISTED: usize = 15;

/// Test results of one binary, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    /// Reads the `test result:` lines of a binary's output. A binary that failed without a counted failure counts as one.
    pub fn parse(output: &str, succeeded: bool) -> Self {
        let mut counts = Self::default();
        for line in output.lines().filter(|line| line.starts_with("test result: ")) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
            counts.passed += number(3).unwrap_or_default();
            counts.failed += number(5).unwrap_or_default();
            counts.skipped += number(7).unwrap_or_default();
        }
        if !succeeded && counts.failed == 0 {
            counts.failed = 1;
        }
        counts
    }
}

/// Results of all binaries.
#[derive(Debug, Default)]
pub struct Summary {
    total: Counts,
    suites: Vec<(String, Counts, Duration)>,
}

impl Summary {
    const FILE: &str = "counts";

    pub fn add(&mut self, name: &str, counts: Counts, took: Duration) {
        self.total.passed += counts.passed;
        self.total.failed += counts.failed;
        self.total.skipped += counts.skipped;
        self.suites.push((name.to_owned(), counts, took));
        self.suites.sort_by_key(|(_, _, took)| std::cmp::Reverse(*took));
    }

    /// Writes the total as `PASSED FAILED SKIPPED`, for `scripts/test`.
    pub fn store(&self, folder: &Path) -> Result<()> {
        let Counts { passed, failed, skipped } = self.total;
        let stored = fs::write(folder.join(Self::FILE), format!("{passed} {failed} {skipped}\n"));
        stored.map_err(|source| Error::Io { what: "storing test counts".into(), source })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n== slowest suites\n{:>6}  {:>6}  {:>6}  suite", "time", "passed", "failed")?;
        for (name, counts, took) in self.suites.iter().take(LISTED) {
            writeln!(f, "{:>4} s  {:>6}  {:>6}  {name}", took.as_secs(), counts.passed, counts.failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
    const FAILED: &str = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";

    #[test]
    fn counts_come_from_result_lines() {
        let counts = Counts::parse(&format!("noise\n{PASSED}\n"), true);
        assert_eq!(counts, Counts { passed: 3, failed: 0, skipped: 1 });
    }

    #[test]
    fn binary_that_dies_without_result_counts_as_failure() {
        assert_eq!(Counts::parse("panicked", false), Counts { passed: 0, failed: 1, skipped: 0 });
    }

    #[test]
    fn repeated_failure_output_is_not_counted_twice() {
        let folder = tempfile::tempdir().unwrap();
        let mut summary = Summary::default();
        summary.add("a", Counts::parse(PASSED, true), Duration::from_secs(1));
        summary.add("b", Counts::parse(FAILED, false), Duration::from_secs(2));
        summary.store(folder.path()).unwrap();
        let stored = fs::read_to_string(folder.path().join(Summary::FILE)).unwrap();
        assert_eq!(stored, "5 1 1\n");
        let table = summary.to_string();
        assert!(table.find("b\n") < table.find("a\n"), "slowest first: {table}");
    }
}
