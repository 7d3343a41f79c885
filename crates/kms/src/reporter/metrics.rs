//! Metrics of the reporter. KMS key ids are never label values.

use std::time::Duration;

use api::kms::{Cause, PluginStatus};
use k8s_openapi::jiff::Timestamp;
use plan::kms::plugin_health::PluginHealth;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::metrics::Metrics;

use super::publish::Outcome;

runtime::catalog! {
    /// All metrics of the reporter, in the order of the reference page.
    ALL;
    PROBES: Counter "outrigger_kms_probes_total" ["key", "class", "cause"] "Probes of plugins, by key number, class (Healthy, Unhealthy, Error) and cause";
    PROBE_TIME: Histogram "outrigger_kms_probe_duration_seconds" ["key"] "Duration of the Status call of a plugin, failed calls included";
    HEALTHY: Gauge "outrigger_kms_plugin_healthy" ["key"] "1 if the plugin is healthy, else 0";
    PUBLISHES: Counter "outrigger_kms_publishes_total" ["outcome"] "Attempts to publish reports, by outcome: stored, stored_smallest, rejected, unauthenticated, forbidden, missing, unavailable, unreachable, timeout or no_credentials";
    PUBLISHED: Gauge "outrigger_kms_last_publish_timestamp_seconds" [] "Unix time of the last successful publish";
    LEFT_OUT: Counter "outrigger_kms_publishes_left_out_total" [] "Rounds that were not published because nothing changed and too many reporters share the object, or because of Retry-After";
    PROMISED: Gauge "outrigger_kms_promised_interval_seconds" [] "Longest time until the next report, as published in intervalSeconds where the format has it";
    ROUND_TIME: Histogram "outrigger_kms_round_duration_seconds" [] "Duration of a round: all probes, and publishing";
    OVERRUNS: Counter "outrigger_kms_round_overruns_total" [] "Rounds that took longer than the interval";
}

/// Histogram buckets in seconds, from a plugin that responds from memory to one whose KMS hangs.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProbeLabels {
    key: String,
    class: &'static str,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// Metrics of the reporter.
#[derive(Clone, Debug)]
pub(super) struct ReporterMetrics {
    probes: Family<ProbeLabels, Counter>,
    probe_time: HistogramFamily<KeyLabels>,
    healthy: Family<KeyLabels, Gauge>,
    publishes: Family<OutcomeLabels, Counter>,
    published: Gauge,
    left_out: Counter,
    promised: Gauge,
    round_time: Histogram,
    overruns: Counter,
}

impl ReporterMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let reporter_metrics = Self {
            probes: Family::default(),
            probe_time: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            healthy: Family::default(),
            publishes: Family::default(),
            published: Gauge::default(),
            left_out: Counter::default(),
            promised: Gauge::default(),
            round_time: Histogram::new(BUCKETS),
            overruns: Counter::default(),
        };
        // Alerts on an increase need the series to start at zero.
        for outcome in Outcome::NAMES {
            drop(reporter_metrics.publishes.get_or_create(&OutcomeLabels { outcome }));
        }
        metrics.register(&PROBES, reporter_metrics.probes.clone());
        metrics.register(&PROBE_TIME, reporter_metrics.probe_time.clone());
        metrics.register(&HEALTHY, reporter_metrics.healthy.clone());
        metrics.register(&PUBLISHES, reporter_metrics.publishes.clone());
        metrics.register(&PUBLISHED, reporter_metrics.published.clone());
        metrics.register(&LEFT_OUT, reporter_metrics.left_out.clone());
        metrics.register(&PROMISED, reporter_metrics.promised.clone());
        metrics.register(&ROUND_TIME, reporter_metrics.round_time.clone());
        metrics.register(&OVERRUNS, reporter_metrics.overruns.clone());
        reporter_metrics
    }

    pub(super) fn record_probe(&self, key: &str, health: &PluginHealth, took: Duration) {
        let class = health.status.as_str();
        let cause = health.cause.map(Cause::name).unwrap_or_default();
        self.probes.get_or_create(&ProbeLabels { key: key.into(), class, cause }).inc();
        self.probe_time.get_or_create(&KeyLabels { key: key.into() }).observe(took.as_secs_f64());
        let healthy = i64::from(health.status == PluginStatus::Healthy);
        self.healthy.get_or_create(&KeyLabels { key: key.into() }).set(healthy);
    }

    pub(super) fn record_publish(&self, outcome: &Outcome) {
        self.publishes.get_or_create(&OutcomeLabels { outcome: outcome.name() }).inc();
        if outcome.is_stored() {
            self.published.set(Timestamp::now().as_second());
        }
    }

    pub(super) fn record_skipped_publish(&self) {
        self.left_out.inc();
    }

    pub(super) fn set_promised_interval(&self, interval: Duration) {
        self.promised.set(i64::try_from(interval.as_secs()).unwrap_or(i64::MAX));
    }

    pub(super) fn record_round(&self, took: Duration, interval: Duration) {
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
    fn registered_metrics_match_catalog() {
        let metrics = Metrics::new();
        let reporter_metrics = ReporterMetrics::new(&metrics);
        let health = PluginHealth { status: PluginStatus::Healthy, cause: None, detail: None, key_id: None };
        reporter_metrics.record_probe("1", &health, Duration::from_millis(1));
        reporter_metrics.record_publish(&Outcome::Stored);
        reporter_metrics.record_skipped_publish();
        reporter_metrics.set_promised_interval(Duration::from_secs(30));
        reporter_metrics.record_round(Duration::from_secs(2), Duration::from_secs(1));
        let text = metrics.encode();
        assert_eq!(
            runtime::metrics::catalog::differences(ALL, "outrigger_kms_", &text),
            Vec::<String>::new()
        );
    }
}
