//! Metrics: one registry per process, no global state.

pub mod catalogue;
mod process;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use self::catalogue::{self as all, Description, Type};
use crate::events;

/// Seconds, from a cached look to a task that hangs.
const TIMES: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// A family of counters.
pub(crate) type Counters<L> = Family<L, Counter>;
/// A family of gauges.
pub(crate) type Gauges<L> = Family<L, Gauge>;
/// A family of distributions of times.
pub(crate) type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// A family of distributions of times, with the house's buckets.
pub(crate) fn times<L: Clone + Eq + std::hash::Hash>() -> Times<L> {
    Family::new_with_constructor(|| Histogram::new(TIMES))
}

macro_rules! labels {
    ($($name:ident { $($field:ident),* })*) => {
        $(#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(crate) struct $name { $(pub(crate) $field: String),* })*
    };
}

labels! {
    ByController { controller }
    ByResult { controller, result }
    ByQueue { name, controller }
    ByAnswer { code, method, host }
    ByVerb { verb, host }
    ByName { name }
    ByEnd { outcome }
    ByKind { kind }
    ByCause { kind, cause }
    ByOutcome { kind, outcome }
}

/// The metrics of one process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    pub(crate) reconciles: Counters<ByResult>,
    pub(crate) reconcile_errors: Counters<ByController>,
    pub(crate) reconcile_panics: Counters<ByController>,
    pub(crate) reconcile_time: Times<ByController>,
    pub(crate) active_workers: Gauges<ByController>,
    pub(crate) max_concurrent: Gauges<ByController>,
    queue_depth: Gauges<ByQueue>,
    queue_adds: Counters<ByQueue>,
    queue_waited: Times<ByQueue>,
    queue_worked: Times<ByQueue>,
    queue_retries: Counters<ByQueue>,
    pub(crate) requests: Counters<ByAnswer>,
    pub(crate) request_time: Times<ByVerb>,
    pub(crate) leader: Gauges<ByName>,
    pub(crate) watch_objects: Gauges<ByKind>,
    pub(crate) watch_broken: Gauges<ByKind>,
    pub(crate) watch_restarts: Counters<ByCause>,
    pub(crate) watch_progress: Gauges<ByKind>,
    pub(crate) writes: Counters<ByOutcome>,
    pub(crate) stale_waits: Counters<ByController>,
    events: Counters<ByEnd>,
}

impl Metrics {
    /// The metrics of this process, all registered.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::default())),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_panics: Family::default(),
            reconcile_time: times(),
            active_workers: Family::default(),
            max_concurrent: Family::default(),
            queue_depth: Family::default(),
            queue_adds: Family::default(),
            queue_waited: times(),
            queue_worked: times(),
            queue_retries: Family::default(),
            requests: Family::default(),
            request_time: times(),
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
        // From the start: a counter that appears only with its first drop would show no increase then.
        for outcome in [events::SENT, events::DROPPED] {
            drop(metrics.events.get_or_create(&ByEnd { outcome: outcome.to_owned() }));
        }
        metrics.collect(process::Process);
        metrics
    }

    /// Adds a metric under its description. The encoder ends the names of counters itself.
    pub fn register(&self, description: &Description, metric: impl Metric) {
        let name = match description.kind {
            Type::Counter => description.name.trim_end_matches("_total"),
            Type::Gauge | Type::Histogram => description.name,
        };
        self.with(|registry| registry.register(name, description.help, metric));
    }

    /// Adds metrics that are made when they are asked for, under their own descriptions: for figures that follow from something
    /// that is known anyway, and must not outlive it.
    pub fn collect(&self, collector: impl Collector) {
        self.with(|registry| registry.register_collector(Box::new(collector)));
    }

    /// Counts an event by what became of it.
    pub(crate) fn count_event(&self, outcome: &'static str) {
        self.events.get_or_create(&ByEnd { outcome: outcome.to_owned() }).inc();
    }

    /// The metrics of one queue; its controller has the same name.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = ByQueue { name: name.to_owned(), controller: name.to_owned() };
        QueueMetrics {
            depth: self.queue_depth.get_or_create_owned(&labels),
            adds: self.queue_adds.get_or_create_owned(&labels),
            waited: self.queue_waited.get_or_create_owned(&labels),
            worked: self.queue_worked.get_or_create_owned(&labels),
            retries: self.queue_retries.get_or_create_owned(&labels),
        }
    }

    /// Everything, in the text form of OpenMetrics.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.with(|registry| text::encode(&mut out, registry));
        out
    }

    fn with<T>(&self, access: impl FnOnce(&mut Registry) -> T) -> T {
        access(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
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

/// The metrics of one queue.
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
    fn what_is_registered_is_what_is_described() {
        let metrics = Metrics::new();
        let label = || "x".to_owned();
        let queue = metrics.queue("x");
        queue.adds.inc();
        queue.waited.observe(0.1);
        metrics.reconciles.get_or_create(&ByResult { controller: label(), result: label() }).inc();
        for family in [&metrics.reconcile_errors, &metrics.reconcile_panics, &metrics.stale_waits] {
            family.get_or_create(&ByController { controller: label() }).inc();
        }
        metrics.reconcile_time.get_or_create(&ByController { controller: label() }).observe(1.0);
        for family in [&metrics.active_workers, &metrics.max_concurrent] {
            family.get_or_create(&ByController { controller: label() }).set(1);
        }
        metrics.requests.get_or_create(&ByAnswer { code: label(), method: label(), host: label() }).inc();
        metrics.request_time.get_or_create(&ByVerb { verb: label(), host: label() }).observe(1.0);
        metrics.leader.get_or_create(&ByName { name: label() }).set(1);
        for family in [&metrics.watch_objects, &metrics.watch_broken, &metrics.watch_progress] {
            family.get_or_create(&ByKind { kind: label() }).set(1);
        }
        metrics.watch_restarts.get_or_create(&ByCause { kind: label(), cause: label() }).inc();
        metrics.writes.get_or_create(&ByOutcome { kind: label(), outcome: label() }).inc();

        metrics.count_event(events::SENT);

        let text = metrics.text();
        for described in all::ALL {
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
        let types = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!(types, all::ALL.len(), "nothing is registered that is not described");
    }
}
