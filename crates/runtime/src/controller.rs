//! Reconciles the keys of a queue concurrently, each with a deadline. A reconcile that panics or hangs affects only its own key.

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::metrics::{ControllerLabels, Metrics, ResultLabels};
use crate::queue::{Queue, Work, WorkResult};

/// Runs reconciles for the keys of a queue.
#[derive(Clone, Debug)]
pub struct Controller<K> {
    name: String,
    queue: Arc<Queue<K>>,
    deadline: Duration,
    metrics: Metrics,
}

impl<K> Controller<K>
where
    K: Clone + Eq + Hash + Display + Send + Sync + 'static,
{
    /// Creates a controller. A reconcile that exceeds `deadline` is dropped and counts as failed.
    #[must_use]
    pub fn new(name: impl Into<String>, queue: Arc<Queue<K>>, deadline: Duration, metrics: &Metrics) -> Self {
        let name = name.into();
        let max = i64::try_from(queue.concurrency()).unwrap_or(i64::MAX);
        metrics.max_concurrent.get_or_create(&ControllerLabels { controller: name.clone() }).set(max);
        Self { name, queue, deadline, metrics: metrics.clone() }
    }

    /// Reconciles until `stop` is cancelled, then finishes running reconciles. Dropping the future aborts them.
    ///
    /// `reconcile` returns when to requeue the key, if at all.
    pub async fn run<F, Fut, E>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let labels = ControllerLabels { controller: self.name.clone() };
        let active = self.metrics.active_workers.get_or_create_owned(&labels);
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(joined) = running.join_next(), if !running.is_empty() => self.record_join(&joined, &active),
                work = self.queue.next() => {
                    let Some(key) = work.key().cloned() else { continue };
                    active.inc();
                    let span = tracing::info_span!("reconcile", controller = self.name, object = %key);
                    running.spawn(reconcile_one(self.clone(), work, reconcile(key)).instrument(span));
                }
            }
        }
        while let Some(joined) = running.join_next().await {
            self.record_join(&joined, &active);
        }
    }

    /// Counts a finished reconcile. If it panicked, dropping its [`Work`] has already requeued the key.
    fn record_join(
        &self,
        joined: &Result<(), tokio::task::JoinError>,
        active: &prometheus_client::metrics::gauge::Gauge,
    ) {
        active.dec();
        if let Err(error) = joined
            && error.is_panic()
        {
            let labels = ControllerLabels { controller: self.name.clone() };
            self.metrics.reconcile_panics.get_or_create(&labels).inc();
            self.metrics.reconcile_errors.get_or_create(&labels).inc();
            self.count("error");
            tracing::error!(controller = self.name, %error, "reconcile panicked; requeued with backoff");
        }
    }

    fn count(&self, result: &str) {
        let labels = ResultLabels { controller: self.name.clone(), result: result.to_owned() };
        self.metrics.reconciles.get_or_create(&labels).inc();
    }
}

async fn reconcile_one<K, E>(
    controller: Controller<K>,
    work: Work<K>,
    reconcile: impl Future<Output = Result<Option<Duration>, E>>,
) where
    K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    E: Display,
{
    let start = Instant::now();
    let labels = ControllerLabels { controller: controller.name.clone() };
    let object = work.key().map(ToString::to_string).unwrap_or_default();
    let result = tokio::time::timeout(controller.deadline, reconcile).await;
    controller.metrics.reconcile_time.get_or_create(&labels).observe(start.elapsed().as_secs_f64());
    let error = match result {
        Ok(Ok(requeue_after)) => {
            controller.count(if requeue_after.is_some() { "requeue_after" } else { "success" });
            work.finish(WorkResult::Done { requeue_after });
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("exceeded its deadline of {:?}", controller.deadline),
    };
    controller.count("error");
    controller.metrics.reconcile_errors.get_or_create(&labels).inc();
    // Logged once per series of failures; metrics and /debug/state.json show how many there were.
    if work.failures() == 0 {
        tracing::warn!(
            controller = controller.name,
            object,
            error,
            "reconcile failed; requeued with backoff"
        );
    }
    work.finish(WorkResult::Failed);
}
