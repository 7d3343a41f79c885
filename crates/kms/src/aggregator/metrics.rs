//! Metrics of the aggregator. Series of an object end with it.

use plan::kms::rollup::{State, Subject};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use runtime::metrics::Metrics;

use super::target::Place;

runtime::catalogue! {
    /// Every metric of the aggregator, in the order of the documentation.
    ALL;
    REPORTS: Gauge "outrigger_kms_reports" ["target", "name"] "Typed reports that stand on an object";
    LIMIT: Gauge "outrigger_kms_reports_limit" ["target", "name"] "Most typed reports that an object takes: a node beyond them cannot report";
    PLUGINS: Gauge "outrigger_kms_plugins" ["target", "name", "state"] "Plugins that are expected to be reported, by how they are";
    REMOVED: Counter "outrigger_kms_reports_removed_total" ["target"] "Entries that were removed because nobody needed and nobody wrote them";
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByObject {
    target: &'static str,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    target: &'static str,
    name: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTarget {
    target: &'static str,
}

/// Metrics of the aggregator.
#[derive(Clone, Debug, Default)]
pub(super) struct KmsMetrics {
    reports: Family<ByObject, Gauge>,
    limit: Family<ByObject, Gauge>,
    plugins: Family<ByState, Gauge>,
    removed: Family<ByTarget, Counter>,
}

impl KmsMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let these = Self::default();
        metrics.register(&REPORTS, these.reports.clone());
        metrics.register(&LIMIT, these.limit.clone());
        metrics.register(&PLUGINS, these.plugins.clone());
        metrics.register(&REMOVED, these.removed.clone());
        these
    }

    /// An object was looked at.
    pub(super) fn looked(&self, place: &Place, reports: usize, subjects: &[Subject]) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.reports.get_or_create(&by_object(place)).set(count(reports));
        self.limit.get_or_create(&by_object(place)).set(count(place.target.most_reports()));
        for state in State::ALL {
            let so_many = subjects.iter().filter(|one| one.state == state).count();
            self.plugins.get_or_create(&by_state(place, state)).set(count(so_many));
        }
    }

    /// Entries were removed.
    pub(super) fn removed(&self, place: &Place, entries: usize) {
        let labels = ByTarget { target: place.target.word() };
        self.removed.get_or_create(&labels).inc_by(entries as u64);
    }

    /// An object is gone.
    pub(super) fn forget(&self, place: &Place) {
        self.reports.remove(&by_object(place));
        self.limit.remove(&by_object(place));
        for state in State::ALL {
            self.plugins.remove(&by_state(place, state));
        }
    }
}

fn by_object(place: &Place) -> ByObject {
    ByObject { target: place.target.word(), name: place.name.clone() }
}

fn by_state(place: &Place, state: State) -> ByState {
    ByState { target: place.target.word(), name: place.name.clone(), state: state.as_str() }
}

#[cfg(test)]
mod tests {
    use runtime::metrics::catalogue;

    use super::*;
    use crate::aggregator::Target;

    #[test]
    fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
        let page = catalogue::page(&[("Of the KMS aggregator", ALL), ("Of every process", catalogue::ALL)]);
        testbed::harness::generated::check("docs/reference/kms-aggregator-metrics.md", &page)
    }

    #[test]
    fn an_object_that_is_gone_has_no_series() {
        let metrics = Metrics::new();
        let these = KmsMetrics::new(&metrics);
        let place = Place { target: Target::KmsHealth, name: "cluster".into() };
        these.looked(&place, 3, &[]);
        these.removed(&place, 1);
        assert!(metrics.text().contains("outrigger_kms_reports{target=\"kmshealth\",name=\"cluster\"} 3"));
        for described in ALL {
            assert!(metrics.text().contains(described.name.trim_end_matches("_total")), "{}", described.name);
        }
        these.forget(&place);
        assert!(!metrics.text().contains("name=\"cluster\""), "{}", metrics.text());
    }
}
