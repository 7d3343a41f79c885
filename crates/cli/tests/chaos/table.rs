//! Recovery times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::fault::Fault;

/// Result of one round.
pub struct Row {
    pub edit: &'static str,
    pub fault: Fault,
    pub target: String,
    /// Time from the edit to the fault.
    pub after: Duration,
    /// Time from the fault to convergence.
    pub recovered: Duration,
    /// Pods that the operator deleted for the edit.
    pub cycles: usize,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edit, fault, target, after, recovered, cycles } = self;
        let (after, recovered) = (after.as_secs_f64(), recovered.as_secs_f64());
        write!(
            f,
            "{edit:<18} {after:>4.1} s later: {fault:<21} {target:<13} converged after {recovered:>5.1} s, {cycles} pod cycles"
        )
    }
}

/// Recovery times by fault.
#[derive(Default)]
pub struct Table(BTreeMap<Fault, Vec<Duration>>);

impl Table {
    pub fn add(&mut self, row: Row) {
        self.0.entry(row.fault).or_default().push(row.recovered);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<21} rounds  median      max", "fault")?;
        for (fault, times) in &self.0 {
            let mut times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
            times.sort_by(f64::total_cmp);
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            let max = times.last().copied().unwrap_or_default();
            writeln!(f, "{fault:<21} {:>6} {median:>5.1} s  {max:>5.1} s", times.len())?;
        }
        Ok(())
    }
}
