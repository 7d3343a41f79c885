//! Metrics of the aggregator. Deleted objects have no series.

use plan::kms::rollup::{PluginObservation, PluginState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use runtime::metrics::Metrics;

use super::target::{ObjectRef, max_reports};

runtime::catalog! {
    /// All metrics of the aggregator, in the order of the reference page.
    ALL;
    REPORTS: Gauge "outrigger_kms_reports" ["target", "name"] "Typed reports in an object";
    LIMIT: Gauge "outrigger_kms_reports_limit" ["target", "name"] "Maximum number of typed reports in an object; further reports are rejected";
    PLUGINS: Gauge "outrigger_kms_plugins" ["target", "name", "state"] "Expected plugins, by state";
    REMOVED: Counter "outrigger_kms_reports_removed_total" ["target"] "Stale reports of unexpected nodes or keys that were removed";
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabels {
    target: &'static str,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    target: &'static str,
    name: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabels {
    target: &'static str,
}

/// Metrics of the aggregator.
#[derive(Clone, Debug, Default)]
pub(super) struct KmsMetrics {
    reports: Family<ObjectLabels, Gauge>,
    limit: Family<ObjectLabels, Gauge>,
    plugins: Family<StateLabels, Gauge>,
    removed: Family<TargetLabels, Counter>,
}

impl KmsMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let kms_metrics = Self::default();
        metrics.register(&REPORTS, kms_metrics.reports.clone());
        metrics.register(&LIMIT, kms_metrics.limit.clone());
        metrics.register(&PLUGINS, kms_metrics.plugins.clone());
        metrics.register(&REMOVED, kms_metrics.removed.clone());
        kms_metrics
    }

    /// Records the rollup of an object.
    pub(super) fn record_rollup(&self, object: &ObjectRef, reports: usize, subjects: &[PluginObservation]) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.reports.get_or_create(&object_labels(object)).set(count(reports));
        self.limit.get_or_create(&object_labels(object)).set(count(max_reports(object.target)));
        for state in PluginState::ALL {
            let plugins = subjects.iter().filter(|one| one.state == state).count();
            self.plugins.get_or_create(&state_labels(object, state)).set(count(plugins));
        }
    }

    /// Counts removed reports.
    pub(super) fn record_removed(&self, object: &ObjectRef, entries: usize) {
        let labels = TargetLabels { target: object.target.as_str() };
        self.removed.get_or_create(&labels).inc_by(entries as u64);
    }

    /// Removes the series of a deleted object.
    pub(super) fn remove_object(&self, object: &ObjectRef) {
        self.reports.remove(&object_labels(object));
        self.limit.remove(&object_labels(object));
        for state in PluginState::ALL {
            self.plugins.remove(&state_labels(object, state));
        }
    }
}

fn object_labels(object: &ObjectRef) -> ObjectLabels {
    ObjectLabels { target: object.target.as_str(), name: object.name.clone() }
}

fn state_labels(object: &ObjectRef, state: PluginState) -> StateLabels {
    StateLabels { target: object.target.as_str(), name: object.name.clone(), state: state.as_str() }
}

#[cfg(test)]
mod tests {
    use api::kms::KmsTarget;
    use runtime::metrics::catalog;

    use super::*;

    #[test]
    fn metrics_page_matches_code() -> testbed::Result<()> {
        let page = catalog::page(&[("KMS aggregator", ALL), ("All processes", catalog::ALL)]);
        testbed::harness::generated::check("docs/reference/kms-aggregator-metrics.md", &page)
    }

    #[test]
    fn deleted_object_has_no_series() {
        let metrics = Metrics::new();
        let kms_metrics = KmsMetrics::new(&metrics);
        let object = ObjectRef { target: KmsTarget::KmsHealth, name: "cluster".into() };
        kms_metrics.record_rollup(&object, 3, &[]);
        kms_metrics.record_removed(&object, 1);
        assert!(metrics.encode().contains("outrigger_kms_reports{target=\"kmshealth\",name=\"cluster\"} 3"));
        for described in ALL {
            assert!(
                metrics.encode().contains(described.name.trim_end_matches("_total")),
                "{}",
                described.name
            );
        }
        kms_metrics.remove_object(&object);
        assert!(!metrics.encode().contains("name=\"cluster\""), "{}", metrics.encode());
    }
}
