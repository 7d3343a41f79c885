//! The runtime's metrics. Registration and documentation are both generated from these descriptions.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Monotonic; the name ends with `_total`.
    Counter,
    /// A value that can go up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Describes a metric.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The full name.
    pub name: &'static str,
    /// The type.
    pub kind: Type,
    /// The label names.
    pub labels: &'static [&'static str],
    /// The HELP text, without a full stop.
    pub help: &'static str,
}

/// Declares metric descriptions as constants, and a list of them in documentation order.
#[macro_export]
macro_rules! catalog {
    ($(#[$doc:meta])* $all:ident; $($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $constant: $crate::metrics::catalog::Description =
            $crate::metrics::catalog::Description {
                name: $name,
                kind: $crate::metrics::catalog::Type::$kind,
                labels: &[$($label),*],
                help: $help,
            };)*

        $(#[$doc])*
        pub const $all: &[$crate::metrics::catalog::Description] = &[$($constant),*];
    };
}

// The names up to `leader_election_master_status` are those of controller-runtime, so that existing dashboards work.
catalog! {
    /// The runtime's metrics, in documentation order.
    ALL;
    RECONCILES: Counter "controller_runtime_reconcile_total" ["controller", "result"] "Reconciles, by result: success, requeue_after or error";
    RECONCILE_ERRORS: Counter "controller_runtime_reconcile_errors_total" ["controller"] "Reconciles that returned an error, timed out or panicked";
    RECONCILE_PANICS: Counter "controller_runtime_reconcile_panics_total" ["controller"] "Reconciles that panicked; also counted as errors";
    RECONCILE_TIME: Histogram "controller_runtime_reconcile_time_seconds" ["controller"] "Duration of reconciles";
    ACTIVE_WORKERS: Gauge "controller_runtime_active_workers" ["controller"] "Reconciles currently running";
    MAX_CONCURRENT: Gauge "controller_runtime_max_concurrent_reconciles" ["controller"] "Maximum number of concurrent reconciles";
    QUEUE_DEPTH: Gauge "workqueue_depth" ["name", "controller"] "Keys waiting in the queue";
    QUEUE_ADDS: Counter "workqueue_adds_total" ["name", "controller"] "Keys added to the queue";
    QUEUE_WAITED: Histogram "workqueue_queue_duration_seconds" ["name", "controller"] "Time keys waited in the queue";
    QUEUE_WORKED: Histogram "workqueue_work_duration_seconds" ["name", "controller"] "Time spent processing keys";
    QUEUE_RETRIES: Counter "workqueue_retries_total" ["name", "controller"] "Keys requeued after a failure";
    REQUESTS: Counter "rest_client_requests_total" ["code", "method", "host"] "Requests to the API server, by status code; `<error>` if there was no response";
    REQUEST_TIME: Histogram "rest_client_request_duration_seconds" ["verb", "host"] "Time until the API server's response headers";
    LEADER: Gauge "leader_election_master_status" ["name"] "1 if this process holds the Lease, otherwise 0";
    WATCH_OBJECTS: Gauge "outrigger_watch_objects" ["kind"] "Objects in the watch cache";
    WATCH_BROKEN: Gauge "outrigger_watch_broken_objects" ["kind"] "Objects that failed to deserialize and are not in the cache";
    WATCH_RESTARTS: Counter "outrigger_watch_restarts_total" ["kind", "cause"] "Watch failures, by cause";
    WATCH_PROGRESS: Gauge "outrigger_watch_last_progress_timestamp_seconds" ["kind"] "Time of the last successful watch event, in seconds since the epoch";
    WRITES: Counter "outrigger_writes_total" ["kind", "outcome"] "Writes, by outcome; `unchanged` writes were not sent";
    STALE_WAITS: Counter "outrigger_stale_cache_waits_total" ["controller"] "Reconciles delayed because the cache did not include our own last write yet";
    EVENTS: Counter "outrigger_events_total" ["outcome"] "Events, by outcome: sent, or dropped because the queue was full or the API server rejected them";
    PROCESS_CPU: Counter "process_cpu_seconds_total" [] "CPU time of the process, user and system";
    PROCESS_MEMORY: Gauge "process_resident_memory_bytes" [] "Resident memory of the process";
    PROCESS_VIRTUAL: Gauge "process_virtual_memory_bytes" [] "Virtual memory of the process";
    PROCESS_FDS: Gauge "process_open_fds" [] "Open file descriptors of the process";
    PROCESS_START: Gauge "process_start_time_seconds" [] "Start time of the process, in seconds since the epoch";
}

/// Renders the documentation of metrics as Markdown, one table per heading.
#[must_use]
pub fn page(tables: &[(&str, &[Description])]) -> String {
    let mut page = String::from(
        "# Metrics\n\nGenerated from the code; do not edit. Each process serves its metrics at `/metrics`.\n",
    );
    for (heading, metrics) in tables {
        page.push_str(&format!("\n## {heading}\n\n{}", table(metrics)));
    }
    page
}

/// Compares descriptions with metrics in the text format: returns each described metric or label that has no sample, and each
/// metric that starts with `prefix` but is not described. For tests that record every metric once.
#[must_use]
pub fn differences(described: &[Description], prefix: &str, text: &str) -> Vec<String> {
    let is_sample = |line: &&str, name: &str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ', '_']))
    };
    let mut found = Vec::new();
    for metric in described {
        match text.lines().find(|line| is_sample(line, metric.name)) {
            None => found.push(format!("{} has no sample", metric.name)),
            Some(sample) => found.extend(
                metric
                    .labels
                    .iter()
                    .filter(|label| !sample.contains(&format!("{label}=\"")))
                    .map(|label| format!("{} has no label {label}", metric.name)),
            ),
        }
    }
    let names: Vec<&str> = described.iter().map(|metric| metric.name.trim_end_matches("_total")).collect();
    let served = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let undescribed = served.filter(|name| name.starts_with(prefix) && !names.contains(name));
    found.extend(undescribed.map(|name| format!("{name} is not described")));
    found
}

fn table(metrics: &[Description]) -> String {
    let mut table = String::from("| metric | type | labels | description |\n|---|---|---|---|\n");
    for metric in metrics {
        let kind = match metric.kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!(
            "| `{}` | {kind} | {} | {} |\n",
            metric.name,
            labels.join(", "),
            metric.help
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_between_descriptions_and_samples_are_found() {
        let described = |name, labels| Description { name, kind: Type::Counter, labels, help: "" };
        let all = [described("a_total", &["x", "y"][..]), described("b_total", &[])];
        let text =
            "# TYPE a counter\na_total{x=\"1\"} 1\n# TYPE c gauge\nc 1\n# TYPE process_threads gauge\n";
        let expected = ["a_total has no label y", "b_total has no sample", "c is not described"];
        assert_eq!(differences(&all, "c", text), expected);
        let text = "# TYPE a counter\na_total{x=\"1\",y=\"2\"} 1\n# TYPE b counter\nb_total 0\n";
        assert_eq!(differences(&all, "", text), Vec::<String>::new());
    }

    #[test]
    fn metric_names_are_unique_and_follow_conventions() {
        let mut seen = std::collections::BTreeSet::new();
        for metric in ALL {
            assert!(seen.insert(metric.name), "duplicate metric {}", metric.name);
            assert_eq!(metric.kind == Type::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert!(!metric.help.ends_with('.'), "the encoder adds a full stop: {}", metric.name);
        }
    }
}
