//! Whether a report is fresh. A node's clock is not trusted: who changes his report is alive. Only of what was never seen to
//! change do clocks have to tell.

use std::time::Duration;

use super::input::{Now, Report, Rules};
use super::memory::Seen;

/// How fresh a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Its reporter lives; until then, if nothing more is heard.
    Fresh { until: Duration },
    /// Its reporter has stopped.
    Stale,
    /// It comes from the future, and was not seen to change: it would look fresh for ever.
    Ahead,
}

/// How fresh a report is. One that does not change is stale after several intervals, by our own clock; one that stood there
/// when we began to look may have been stale long before.
pub(super) fn of(report: &Report, seen: &Seen, rules: &Rules, now: Now) -> Freshness {
    let limit = rules.stale_after(report.interval);
    let silent = now.steady.saturating_sub(seen.heard);
    let until = seen.heard.saturating_add(limit).saturating_add(INSTANT);
    if seen.progressed {
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

/// What is late only after a moment is late an instant later.
pub(super) const INSTANT: Duration = Duration::from_millis(1);
