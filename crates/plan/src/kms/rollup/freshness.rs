//! Freshness of reports. Node clocks are not trusted: a reporter that changes its report is alive. Clocks count only for a report
//! that has not been observed to change.

use std::time::Duration;

use super::input::{ClockReading, PluginReport, RollupRules};
use super::state::ObservedEntry;

/// Freshness of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The reporter is alive. Without further changes the report becomes stale at `until`.
    Fresh { until: Duration },
    /// The reporter has stopped.
    Stale,
    /// The probe time is in the future and was not observed to change: by its clock the report would stay fresh for too long.
    Ahead,
}

/// Evaluates the freshness of a report. By the local clock, a report is stale if it has not changed for several intervals. A report
/// that existed before this process started may already have been stale.
pub(super) fn evaluate(
    report: &PluginReport,
    entry: &ObservedEntry,
    rules: &RollupRules,
    now: ClockReading,
) -> Freshness {
    let limit = rules.stale_after(report.interval);
    let silent = now.monotonic.saturating_sub(entry.last_change);
    let until = entry.last_change.saturating_add(limit).saturating_add(INSTANT);
    if entry.has_changed {
        return if silent > limit { Freshness::Stale } else { Freshness::Fresh { until } };
    }
    let age = now.wall.as_nanosecond() - report.checked.as_nanosecond();
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    if age < -nanos(rules.margin) {
        Freshness::Ahead
    } else if silent > limit || age > nanos(limit.saturating_add(rules.margin)) {
        Freshness::Stale
    } else {
        Freshness::Fresh { until }
    }
}

/// Added to deadlines that are exclusive.
pub(super) const INSTANT: Duration = Duration::from_millis(1);
