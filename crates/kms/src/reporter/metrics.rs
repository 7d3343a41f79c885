//! Metrics of the reporter. Ids of keys are in none of them.

use std::time::Duration;

use api::kms::{Cause, HealthStatus};
use k8s_openapi::jiff::Timestamp;
use plan::kms::verdict::Verdict;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::metrics::Metrics;

use super::publish::Outcome;

runtime::catalogue! {
    /// Every metric of the reporter, in the order of the documentation.
    ALL;
    PROBES: Counter "outrigger_kms_probes_total" ["key", "class", "cause"] "Looks at plugins, by the number of their key, by class (Healthy, Unhealthy, Error) and by cause";
    PROBE_TIME: Histogram "outrigger_kms_probe_duration_seconds" ["key"] "Time until a plugin said how it is, or could not";
    HEALTHY: Gauge "outrigger_kms_plugin_healthy" ["key"] "1 while a plugin is healthy, else 0";
    PUBLISHES: Counter "outrigger_kms_publishes_total" ["outcome"] "Tries to publish reports, by outcome: stored, stored_smallest, rejected, unauthenticated, forbidden, missing, unavailable, unreachable, timeout or no_credentials";
    PUBLISHED: Gauge "outrigger_kms_last_publish_timestamp_seconds" [] "When reports were last stored, in seconds since 1970";
    LEFT_OUT: Counter "outrigger_kms_publishes_left_out_total" [] "Rounds that were not published: they said nothing new, and too many reporters write the object for its API server; or the server asked for time";
    PROMISED: Gauge "outrigger_kms_promised_interval_seconds" [] "How long at most it takes until the next report, as reports tell it where they have a place for it";
    ROUND_TIME: Histogram "outrigger_kms_round_duration_seconds" [] "Time that a round took: all looks, and publishing";
    OVERRUNS: Counter "outrigger_kms_round_overruns_total" [] "Rounds that took longer than the interval";
}

/// Seconds, from a plugin that answers from memory to one whose KMS hangs.
const TIMES: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerdict {
    key: String,
    class: &'static str,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKey {
    key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// Metrics of the reporter.
#[derive(Clone, Debug)]
pub(super) struct ReporterMetrics {
    probes: Family<ByVerdict, Counter>,
    probe_time: Times<ByKey>,
    healthy: Family<ByKey, Gauge>,
    publishes: Family<ByOutcome, Counter>,
    published: Gauge,
    left_out: Counter,
    promised: Gauge,
    round_time: Histogram,
    overruns: Counter,
}

impl ReporterMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let these = Self {
            probes: Family::default(),
            probe_time: Family::new_with_constructor(|| Histogram::new(TIMES)),
            healthy: Family::default(),
            publishes: Family::default(),
            published: Gauge::default(),
            left_out: Counter::default(),
            promised: Gauge::default(),
            round_time: Histogram::new(TIMES),
            overruns: Counter::default(),
        };
        // Those who alert on a rise must see it rise from zero.
        for outcome in Outcome::NAMES {
            drop(these.publishes.get_or_create(&ByOutcome { outcome }));
        }
        metrics.register(&PROBES, these.probes.clone());
        metrics.register(&PROBE_TIME, these.probe_time.clone());
        metrics.register(&HEALTHY, these.healthy.clone());
        metrics.register(&PUBLISHES, these.publishes.clone());
        metrics.register(&PUBLISHED, these.published.clone());
        metrics.register(&LEFT_OUT, these.left_out.clone());
        metrics.register(&PROMISED, these.promised.clone());
        metrics.register(&ROUND_TIME, these.round_time.clone());
        metrics.register(&OVERRUNS, these.overruns.clone());
        these
    }

    pub(super) fn looked(&self, key: &str, verdict: &Verdict, took: Duration) {
        let class = match verdict.class {
            HealthStatus::Healthy => "Healthy",
            HealthStatus::Unhealthy => "Unhealthy",
            HealthStatus::Error => "Error",
        };
        let cause = verdict.cause.map(Cause::name).unwrap_or_default();
        self.probes.get_or_create(&ByVerdict { key: key.into(), class, cause }).inc();
        self.probe_time.get_or_create(&ByKey { key: key.into() }).observe(took.as_secs_f64());
        let healthy = i64::from(verdict.class == HealthStatus::Healthy);
        self.healthy.get_or_create(&ByKey { key: key.into() }).set(healthy);
    }

    pub(super) fn published(&self, outcome: &Outcome) {
        self.publishes.get_or_create(&ByOutcome { outcome: outcome.name() }).inc();
        if outcome.is_stored() {
            self.published.set(Timestamp::now().as_second());
        }
    }

    pub(super) fn left_out(&self) {
        self.left_out.inc();
    }

    pub(super) fn promised(&self, interval: Duration) {
        self.promised.set(i64::try_from(interval.as_secs()).unwrap_or(i64::MAX));
    }

    pub(super) fn round(&self, took: Duration, interval: Duration) {
        self.round_time.observe(took.as_secs_f64());
        if took > interval {
            self.overruns.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_registered_is_what_is_described() {
        let metrics = Metrics::new();
        let these = ReporterMetrics::new(&metrics);
        let verdict = Verdict { class: HealthStatus::Healthy, cause: None, detail: None, key_id: None };
        these.looked("1", &verdict, Duration::from_millis(1));
        these.published(&Outcome::Stored);
        these.left_out();
        these.promised(Duration::from_secs(30));
        these.round(Duration::from_secs(2), Duration::from_secs(1));
        let text = metrics.text();
        for described in ALL {
            let sample = text
                .lines()
                .find(|line| {
                    let rest = line.strip_prefix(described.name);
                    rest.is_some_and(|rest| rest.starts_with(['{', ' ', '_']))
                })
                .unwrap_or_else(|| panic!("{} is not in\n{text}", described.name));
            for label in described.labels {
                assert!(sample.contains(&format!("{label}=\"")), "{sample} lacks {label}");
            }
        }
        let types = text.lines().filter(|line| line.starts_with("# TYPE outrigger_kms_")).count();
        assert_eq!(types, ALL.len(), "nothing is registered that is not described");
    }
}
