//! Prometheus metrics. One registry per process, no global state.

pub mod catalog;
mod process;

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use self::catalog::{self as all, Description, Type};
use crate::events;
use crate::sync::lock;

/// Histogram buckets in seconds, from a cache read to a hanging task.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// A family of counters.
pub(crate) type Counters<L> = Family<L, Counter>;
/// A family of gauges.
pub(crate) type Gauges<L> = Family<L, Gauge>;
/// A family of duration histograms.
pub(crate) type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// Creates a family of duration histograms with the default buckets.
pub(crate) fn durations<L: Clone + Eq + std::hash::Hash>() -> Durations<L> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

macro_rules! labels {
    ($($name:ident { $($field:ident),* })*) => {
        $(#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(crate) struct $name { $(pub(crate) $field: String),* })*
    };
}

labels! {
    ControllerLabels { controller }
    ResultLabels { controller, result }
    QueueLabels { name, controller }
    ResponseLabels { code, method, host }
    VerbLabels { verb, host }
    NameLabels { name }
    EventLabels { outcome }
    KindLabels { kind }
    CauseLabels { kind, cause }
    WriteLabels { kind, outcome }
}

/// The metrics of a process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    pub(crate) reconciles: Counters<ResultLabels>,
    pub(crate) reconcile_errors: Counters<ControllerLabels>,
    pub(crate) reconcile_panics: Counters<ControllerLabels>,
    pub(crate) reconcile_time: Durations<ControllerLabels>,
    pub(crate) active_workers: Gauges<ControllerLabels>,
    pub(crate) max_concurrent: Gauges<ControllerLabels>,
    queue_depth: Gauges<QueueLabels>,
    queue_adds: Counters<QueueLabels>,
    queue_waited: Durations<QueueLabels>,
    queue_worked: Durations<QueueLabels>,
    queue_retries: Counters<QueueLabels>,
    pub(crate) requests: Counters<ResponseLabels>,
    pub(crate) request_time: Durations<VerbLabels>,
    pub(crate) leader: Gauges<NameLabels>,
    pub(crate) watch_objects: Gauges<KindLabels>,
    pub(crate) watch_broken: Gauges<KindLabels>,
    pub(crate) watch_restarts: Counters<CauseLabels>,
    pub(crate) watch_progress: Gauges<KindLabels>,
    pub(crate) writes: Counters<WriteLabels>,
    pub(crate) stale_waits: Counters<ControllerLabels>,
    events: Counters<EventLabels>,
}

impl Metrics {
    /// Creates and registers the runtime's metrics.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::default())),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_panics: Family::default(),
            reconcile_time: durations(),
            active_workers: Family::default(),
            max_concurrent: Family::default(),
            queue_depth: Family::default(),
            queue_adds: Family::default(),
            queue_waited: durations(),
            queue_worked: durations(),
            queue_retries: Family::default(),
            requests: Family::default(),
            request_time: durations(),
            leader: Family::default(),
            watch_objects: Family::default(),
            watch_broken: Family::default(),
            watch_restarts: Family::default(),
            watch_progress: Family::default(),
            writes: Family::default(),
            stale_waits: Family::default(),
            events: Family::default(),
        };
        metrics.register(&all::RECONCILES, metrics.reconciles.clone());
        metrics.register(&all::RECONCILE_ERRORS, metrics.reconcile_errors.clone());
        metrics.register(&all::RECONCILE_PANICS, metrics.reconcile_panics.clone());
        metrics.register(&all::RECONCILE_TIME, metrics.reconcile_time.clone());
        metrics.register(&all::ACTIVE_WORKERS, metrics.active_workers.clone());
        metrics.register(&all::MAX_CONCURRENT, metrics.max_concurrent.clone());
        metrics.register(&all::QUEUE_DEPTH, metrics.queue_depth.clone());
        metrics.register(&all::QUEUE_ADDS, metrics.queue_adds.clone());
        metrics.register(&all::QUEUE_WAITED, metrics.queue_waited.clone());
        metrics.register(&all::QUEUE_WORKED, metrics.queue_worked.clone());
        metrics.register(&all::QUEUE_RETRIES, metrics.queue_retries.clone());
        metrics.register(&all::REQUESTS, metrics.requests.clone());
        metrics.register(&all::REQUEST_TIME, metrics.request_time.clone());
        metrics.register(&all::LEADER, metrics.leader.clone());
        metrics.register(&all::WATCH_OBJECTS, metrics.watch_objects.clone());
        metrics.register(&all::WATCH_BROKEN, metrics.watch_broken.clone());
        metrics.register(&all::WATCH_RESTARTS, metrics.watch_restarts.clone());
        metrics.register(&all::WATCH_PROGRESS, metrics.watch_progress.clone());
        metrics.register(&all::WRITES, metrics.writes.clone());
        metrics.register(&all::STALE_WAITS, metrics.stale_waits.clone());
        metrics.register(&all::EVENTS, metrics.events.clone());
        // Created up front: `increase()` misses the first drop of a counter that did not exist before.
        for outcome in [events::SENT, events::DROPPED] {
            drop(metrics.events.get_or_create(&EventLabels { outcome: outcome.to_owned() }));
        }
        metrics.register_collector(process::Process);
        metrics
    }

    /// Registers a metric under its description.
    pub fn register(&self, description: &Description, metric: impl Metric) {
        // The encoder appends `_total` to the names of counters.
        let name = match description.kind {
            Type::Counter => description.name.trim_end_matches("_total"),
            Type::Gauge | Type::Histogram => description.name,
        };
        lock(&self.registry).register(name, description.help, metric);
    }

    /// Registers a collector, which computes metrics per scrape: for values that must disappear together with their source.
    pub fn register_collector(&self, collector: impl Collector) {
        lock(&self.registry).register_collector(Box::new(collector));
    }

    /// Counts an event by outcome.
    pub(crate) fn count_event(&self, outcome: &'static str) {
        self.events.get_or_create(&EventLabels { outcome: outcome.to_owned() }).inc();
    }

    /// Returns the metrics of a queue. Its controller has the same name.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = QueueLabels { name: name.to_owned(), controller: name.to_owned() };
        QueueMetrics {
            depth: self.queue_depth.get_or_create_owned(&labels),
            adds: self.queue_adds.get_or_create_owned(&labels),
            waited: self.queue_waited.get_or_create_owned(&labels),
            worked: self.queue_worked.get_or_create_owned(&labels),
            retries: self.queue_retries.get_or_create_owned(&labels),
        }
    }

    /// Encodes all metrics as OpenMetrics text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &lock(&self.registry));
        out
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// The metrics of a queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) waited: Histogram,
    pub(crate) worked: Histogram,
    pub(crate) retries: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_metrics_match_their_descriptions() {
        let metrics = Metrics::new();
        let label = || "x".to_owned();
        let queue = metrics.queue("x");
        queue.adds.inc();
        queue.waited.observe(0.1);
        metrics.reconciles.get_or_create(&ResultLabels { controller: label(), result: label() }).inc();
        for family in [&metrics.reconcile_errors, &metrics.reconcile_panics, &metrics.stale_waits] {
            family.get_or_create(&ControllerLabels { controller: label() }).inc();
        }
        metrics.reconcile_time.get_or_create(&ControllerLabels { controller: label() }).observe(1.0);
        for family in [&metrics.active_workers, &metrics.max_concurrent] {
            family.get_or_create(&ControllerLabels { controller: label() }).set(1);
        }
        metrics
            .requests
            .get_or_create(&ResponseLabels { code: label(), method: label(), host: label() })
            .inc();
        metrics.request_time.get_or_create(&VerbLabels { verb: label(), host: label() }).observe(1.0);
        metrics.leader.get_or_create(&NameLabels { name: label() }).set(1);
        for family in [&metrics.watch_objects, &metrics.watch_broken, &metrics.watch_progress] {
            family.get_or_create(&KindLabels { kind: label() }).set(1);
        }
        metrics.watch_restarts.get_or_create(&CauseLabels { kind: label(), cause: label() }).inc();
        metrics.writes.get_or_create(&WriteLabels { kind: label(), outcome: label() }).inc();

        metrics.count_event(events::SENT);

        let text = metrics.encode();
        assert_eq!(all::differences(all::ALL, "", &text), Vec::<String>::new());
    }
}
