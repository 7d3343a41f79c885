//! Metrics. They are shown without a token: labels are those of `api::sidecar_wire::exposure`.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

runtime::catalogue! {
    /// Every metric of the sidecar, in the order of the documentation.
    ALL;
    DURATION: Histogram "seictl_task_execution_duration_seconds" ["type", "status"] "Time that tasks took, by how they ended";
    SUBMISSIONS: Counter "seictl_task_submissions_total" ["type"] "Tasks that were begun; repeated submissions do not count";
    FAILURES: Counter "seictl_task_failures_total" ["type"] "Tasks that failed";
    PANICS: Counter "seictl_task_panics_total" ["type"] "Tasks that panicked; each is also a failure";
    REJECTIONS: Counter "seictl_sidecar_authn_rejections_total" ["reason"] "Calls that were turned away because the proxy named nobody, or more than one";
    UPLOADS: Counter "seictl_snapshot_upload_outcome_total" ["chain", "outcome"] "Rounds of uploads, by how they ended";
    UPLOADED_AT: Gauge "seictl_snapshot_upload_last_run_success_timestamp_seconds" ["chain"] "When a round of uploads last ended well, in seconds since 1970";
}

/// The buckets that dashboards expect, and some for tasks that move a chain's state.
const TIMES: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 21600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByType {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    r#type: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByChain {
    chain: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    chain: String,
    outcome: &'static str,
}

/// The sidecar's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    all: runtime::metrics::Metrics,
    durations: Family<ByStatus, Histogram, fn() -> Histogram>,
    submissions: Family<ByType, Counter>,
    failures: Family<ByType, Counter>,
    panics: Family<ByType, Counter>,
    rejections: Family<ByReason, Counter>,
    uploads: Family<ByOutcome, Counter>,
    uploaded_at: Family<ByChain, Gauge>,
}

impl Metrics {
    /// All of them, registered.
    #[must_use]
    pub fn new() -> Self {
        let all = runtime::metrics::Metrics::new();
        let metrics = Self {
            durations: Family::new_with_constructor(|| Histogram::new(TIMES)),
            submissions: Family::default(),
            failures: Family::default(),
            panics: Family::default(),
            rejections: Family::default(),
            uploads: Family::default(),
            uploaded_at: Family::default(),
            all,
        };
        metrics.all.register(&DURATION, metrics.durations.clone());
        metrics.all.register(&SUBMISSIONS, metrics.submissions.clone());
        metrics.all.register(&FAILURES, metrics.failures.clone());
        metrics.all.register(&PANICS, metrics.panics.clone());
        metrics.all.register(&REJECTIONS, metrics.rejections.clone());
        metrics.all.register(&UPLOADS, metrics.uploads.clone());
        metrics.all.register(&UPLOADED_AT, metrics.uploaded_at.clone());
        metrics
    }

    /// A task was begun.
    pub fn begun(&self, task: TaskType) {
        self.submissions.get_or_create(&ByType { r#type: task.as_str() }).inc();
    }

    /// A task ended.
    pub fn ended(&self, task: TaskType, failed: bool, panicked: bool, took: Duration) {
        let r#type = task.as_str();
        let status = if failed { "failed" } else { "completed" };
        self.durations.get_or_create(&ByStatus { r#type, status }).observe(took.as_secs_f64());
        if failed {
            self.failures.get_or_create(&ByType { r#type }).inc();
        }
        if panicked {
            self.panics.get_or_create(&ByType { r#type }).inc();
        }
    }

    /// A call was turned away.
    pub fn rejected(&self, reason: &'static str) {
        self.rejections.get_or_create(&ByReason { reason }).inc();
    }

    /// A round of uploads ended.
    pub fn uploaded(&self, chain: &str, outcome: &'static str) {
        self.uploads.get_or_create(&ByOutcome { chain: chain.to_owned(), outcome }).inc();
        if outcome != "error" {
            let now = k8s_openapi::jiff::Timestamp::now().as_second();
            self.uploaded_at.get_or_create(&ByChain { chain: chain.to_owned() }).set(now);
        }
    }

    /// Everything, as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.all.text()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use runtime::metrics::catalogue::page;

    use super::*;

    #[test]
    fn what_is_shown_is_what_is_described_and_may_be_shown() {
        let metrics = Metrics::new();
        for task in TaskType::ALL {
            metrics.begun(*task);
            metrics.ended(*task, true, true, Duration::from_secs(1));
        }
        metrics.rejected("missing_header");
        metrics.uploaded("arctic-1", "success");
        let text = metrics.text();
        for metric in ALL {
            assert!(
                text.lines().any(|line| line.starts_with(metric.name)),
                "{} is not shown:\n{text}",
                metric.name
            );
        }
        assert_eq!(api::sidecar_wire::exposure::violations(&text), Vec::<String>::new());
    }

    #[test]
    fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
        let page = page(&[("The sidecar", ALL)]);
        let page = page.replace("# Metrics\n", "# Metrics of the sidecar\n");
        let page = page.replace(
            "Every process serves them at `/metrics` of its admin server.",
            "The sidecar serves them at `/v0/metrics`, with those of its process; what may\nstand in their labels is in sidecar-exposure.md.",
        );
        testbed::harness::generated::check("docs/reference/sidecar-metrics.md", &page)
    }
}
