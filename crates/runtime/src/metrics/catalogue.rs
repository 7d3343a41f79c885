//! Every metric of the runtime, described once: from here it is registered, and from here the documentation is written.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Only grows; its name ends with `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A metric, as users see it.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Its full name.
    pub name: &'static str,
    /// What it is.
    pub kind: Type,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
}

/// Declares metrics as constants, and a list of them in the order of the documentation. Who declares them here cannot
/// register one that is not documented.
#[macro_export]
macro_rules! catalogue {
    ($(#[$doc:meta])* $all:ident; $($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $constant: $crate::metrics::catalogue::Description =
            $crate::metrics::catalogue::Description {
                name: $name,
                kind: $crate::metrics::catalogue::Type::$kind,
                labels: &[$($label),*],
                help: $help,
            };)*

        $(#[$doc])*
        pub const $all: &[$crate::metrics::catalogue::Description] = &[$($constant),*];
    };
}

// The first three groups have the names that dashboards for Go controllers already use.
catalogue! {
    /// Every metric of the runtime, in the order of the documentation.
    ALL;
    RECONCILES: Counter "controller_runtime_reconcile_total" ["controller", "result"] "Reconciliations, by how they ended: success, requeue_after or error";
    RECONCILE_ERRORS: Counter "controller_runtime_reconcile_errors_total" ["controller"] "Reconciliations that ended with an error";
    RECONCILE_PANICS: Counter "controller_runtime_reconcile_panics_total" ["controller"] "Reconciliations that panicked; each is also an error";
    RECONCILE_TIME: Histogram "controller_runtime_reconcile_time_seconds" ["controller"] "Time that reconciliations took";
    ACTIVE_WORKERS: Gauge "controller_runtime_active_workers" ["controller"] "Reconciliations that are running now";
    MAX_CONCURRENT: Gauge "controller_runtime_max_concurrent_reconciles" ["controller"] "How many reconciliations may run at once";
    QUEUE_DEPTH: Gauge "workqueue_depth" ["name", "controller"] "Keys that wait for their turn";
    QUEUE_ADDS: Counter "workqueue_adds_total" ["name", "controller"] "Times that something happened to a key";
    QUEUE_WAITED: Histogram "workqueue_queue_duration_seconds" ["name", "controller"] "Time that keys waited for their turn";
    QUEUE_WORKED: Histogram "workqueue_work_duration_seconds" ["name", "controller"] "Time that keys were worked on";
    QUEUE_RETRIES: Counter "workqueue_retries_total" ["name", "controller"] "Times that a key failed and has to be tried again";
    REQUESTS: Counter "rest_client_requests_total" ["code", "method", "host"] "Requests to the API server, by the code of their answer; `<error>` when none came";
    REQUEST_TIME: Histogram "rest_client_request_duration_seconds" ["verb", "host"] "Time until the head of the API server's answer";
    LEADER: Gauge "leader_election_master_status" ["name"] "1 while this process holds the lease, else 0";
    WATCH_OBJECTS: Gauge "outrigger_watch_objects" ["kind"] "Objects in the cache of a watch";
    WATCH_BROKEN: Gauge "outrigger_watch_broken_objects" ["kind"] "Objects that cannot be read and are left out of the cache";
    WATCH_RESTARTS: Counter "outrigger_watch_restarts_total" ["kind", "cause"] "Times that a watch broke, by cause";
    WATCH_PROGRESS: Gauge "outrigger_watch_last_progress_timestamp_seconds" ["kind"] "When a watch was last known to be in order";
    WRITES: Counter "outrigger_writes_total" ["kind", "outcome"] "Writes that were decided on, by outcome; `unchanged` ones were not sent";
    STALE_WAITS: Counter "outrigger_stale_cache_waits_total" ["controller"] "Reconciliations put off because the cache had not yet seen our own write";
    EVENTS: Counter "outrigger_events_total" ["outcome"] "Events by what became of them: sent, or dropped because the API server did not take them";
    PROCESS_CPU: Counter "process_cpu_seconds_total" [] "Processor time of this process, in user and kernel mode";
    PROCESS_MEMORY: Gauge "process_resident_memory_bytes" [] "Resident memory of this process";
    PROCESS_VIRTUAL: Gauge "process_virtual_memory_bytes" [] "Virtual memory of this process";
    PROCESS_FDS: Gauge "process_open_fds" [] "Open file descriptors of this process";
    PROCESS_START: Gauge "process_start_time_seconds" [] "When this process started, in seconds since 1970";
}

/// The documentation of metrics, in Markdown: a table for each heading.
#[must_use]
pub fn page(tables: &[(&str, &[Description])]) -> String {
    let mut page = String::from(
        "# Metrics\n\nGenerated from the code; a test compares. Every process serves them at `/metrics` of its admin server.\n",
    );
    for (heading, metrics) in tables {
        page.push_str(&format!("\n## {heading}\n\n{}", table(metrics)));
    }
    page
}

fn table(metrics: &[Description]) -> String {
    let mut table = String::from("| metric | type | labels | what it tells |\n|---|---|---|---|\n");
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
    fn names_are_unique_and_follow_the_rules() {
        let mut seen = std::collections::BTreeSet::new();
        for metric in ALL {
            assert!(seen.insert(metric.name), "{} is there twice", metric.name);
            assert_eq!(metric.kind == Type::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert!(!metric.help.ends_with('.'), "the encoder adds the full stop: {}", metric.name);
        }
    }
}
