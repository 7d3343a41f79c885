//! Metrics. They are served without authentication: only the labels in `api::sidecar_wire::exposure` are allowed.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

runtime::catalog! {
    /// Every metric of the sidecar, in the order of the documentation.
    ALL;
    DURATION: Histogram "seictl_task_execution_duration_seconds" ["type", "status"] "Duration of tasks by status";
    SUBMISSIONS: Counter "seictl_task_submissions_total" ["type"] "Tasks started; repeated submissions of the same task do not count";
    FAILURES: Counter "seictl_task_failures_total" ["type"] "Failed tasks";
    PANICS: Counter "seictl_task_panics_total" ["type"] "Panicked tasks; also counted as failed";
    REJECTIONS: Counter "seictl_sidecar_authn_rejections_total" ["reason"] "Requests rejected because X-Remote-User was missing, empty or repeated";
    UPLOADS: Counter "seictl_snapshot_upload_outcome_total" ["chain", "outcome"] "Snapshot uploads by outcome";
    UPLOADED_AT: Gauge "seictl_snapshot_upload_last_run_success_timestamp_seconds" ["chain"] "Unix time of the last successful or skipped snapshot upload";
}

/// The default Prometheus buckets, extended for tasks that transfer chain state.
const DURATION_BUCKETS: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 21600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabels {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    r#type: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChainLabels {
    chain: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    chain: String,
    outcome: &'static str,
}

/// The sidecar's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    all: runtime::metrics::Metrics,
    durations: Family<StatusLabels, Histogram, fn() -> Histogram>,
    submissions: Family<TypeLabels, Counter>,
    failures: Family<TypeLabels, Counter>,
    panics: Family<TypeLabels, Counter>,
    rejections: Family<ReasonLabels, Counter>,
    uploads: Family<OutcomeLabels, Counter>,
    uploaded_at: Family<ChainLabels, Gauge>,
}

impl Metrics {
    /// Creates and registers all metrics.
    #[must_use]
    pub fn new() -> Self {
        let all = runtime::metrics::Metrics::new();
        let metrics = Self {
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
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

    /// Counts a started task.
    pub fn task_started(&self, task_type: TaskType) {
        self.submissions.get_or_create(&TypeLabels { r#type: task_type.as_str() }).inc();
    }

    /// Counts a finished task.
    pub fn task_finished(&self, task_type: TaskType, failed: bool, panicked: bool, duration: Duration) {
        let r#type = task_type.as_str();
        let status = if failed { "failed" } else { "completed" };
        self.durations.get_or_create(&StatusLabels { r#type, status }).observe(duration.as_secs_f64());
        if failed {
            self.failures.get_or_create(&TypeLabels { r#type }).inc();
        }
        if panicked {
            self.panics.get_or_create(&TypeLabels { r#type }).inc();
        }
    }

    /// Counts a rejected request.
    pub fn authn_rejected(&self, reason: &'static str) {
        self.rejections.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts a finished snapshot upload.
    pub fn upload_finished(&self, chain: &str, outcome: &'static str) {
        self.uploads.get_or_create(&OutcomeLabels { chain: chain.to_owned(), outcome }).inc();
        if outcome != "error" {
            let now = k8s_openapi::jiff::Timestamp::now().as_second();
            self.uploaded_at.get_or_create(&ChainLabels { chain: chain.to_owned() }).set(now);
        }
    }

    /// Encodes all metrics as OpenMetrics text.
    #[must_use]
    pub fn encode(&self) -> String {
        self.all.encode()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use runtime::metrics::catalog::page;

    use super::*;

    #[test]
    fn exposed_metrics_are_documented_and_allowed() {
        let metrics = Metrics::new();
        for task in TaskType::ALL {
            metrics.task_started(*task);
            metrics.task_finished(*task, true, true, Duration::from_secs(1));
        }
        metrics.authn_rejected("missing_header");
        metrics.upload_finished("arctic-1", "success");
        let text = metrics.encode();
        for metric in ALL {
            assert!(
                text.lines().any(|line| line.starts_with(metric.name)),
                "{} is missing:\n{text}",
                metric.name
            );
        }
        assert_eq!(api::sidecar_wire::exposure::violations(&text), Vec::<String>::new());
    }

    #[test]
    fn metrics_reference_is_up_to_date() -> testbed::Result<()> {
        // Only the tables: the introduction of the runtime describes where they are served.
        let page = page(&[("Sidecar", ALL)]);
        let (_, tables) = page.split_once("\n## ").unwrap();
        let page = format!(
            "# Sidecar metrics\n\n\
             Generated from the code; do not edit. The sidecar serves its metrics at `/v0/metrics`, together with process metrics;\n\
             sidecar-exposure.md lists the allowed labels.\n\n## {tables}"
        );
        testbed::harness::generated::check("docs/reference/sidecar-metrics.md", &page)
    }
}
