//! Works through a queue: as many keys at once as the queue allows, each with a deadline. A key that panics or hangs harms
//! only itself.

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::metrics::{ByController, ByResult, Metrics};
use crate::queue::{Ended, Queue, Work};

/// A controller that is about to work.
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
    /// A controller; `deadline` is the longest that one reconciliation may take.
    #[must_use]
    pub fn new(name: impl Into<String>, queue: Arc<Queue<K>>, deadline: Duration, metrics: &Metrics) -> Self {
        let name = name.into();
        let most = i64::try_from(queue.concurrency()).unwrap_or(i64::MAX);
        metrics.max_concurrent.get_or_create(&ByController { controller: name.clone() }).set(most);
        Self { name, queue, deadline, metrics: metrics.clone() }
    }

    /// Works until `stop`, then lets what has begun end. Dropped, it cuts off what has begun.
    ///
    /// `reconcile` returns when to look at the key again at the latest, if ever.
    pub async fn run<F, Fut, E>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let labels = ByController { controller: self.name.clone() };
        let active = self.metrics.active_workers.get_or_create_owned(&labels);
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = running.join_next(), if !running.is_empty() => self.joined(&ended, &active),
                work = self.queue.next() => {
                    let Some(key) = work.key().cloned() else { continue };
                    active.inc();
                    let span = tracing::info_span!("reconcile", controller = self.name, object = %key);
                    running.spawn(one(self.clone(), work, reconcile(key)).instrument(span));
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            self.joined(&ended, &active);
        }
    }

    /// A reconciliation has ended. One that panicked has given its key back as failed.
    fn joined(
        &self,
        ended: &Result<(), tokio::task::JoinError>,
        active: &prometheus_client::metrics::gauge::Gauge,
    ) {
        active.dec();
        if let Err(error) = ended
            && error.is_panic()
        {
            let labels = ByController { controller: self.name.clone() };
            self.metrics.reconcile_panics.get_or_create(&labels).inc();
            self.metrics.reconcile_errors.get_or_create(&labels).inc();
            self.count("error");
            tracing::error!(controller = self.name, %error, "a reconciliation panicked; its key is tried again");
        }
    }

    fn count(&self, result: &str) {
        let labels = ByResult { controller: self.name.clone(), result: result.to_owned() };
        self.metrics.reconciles.get_or_create(&labels).inc();
    }
}

async fn one<K, E>(
    controller: Controller<K>,
    work: Work<K>,
    reconcile: impl Future<Output = Result<Option<Duration>, E>>,
) where
    K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    E: Display,
{
    let begin = Instant::now();
    let labels = ByController { controller: controller.name.clone() };
    let object = work.key().map(ToString::to_string).unwrap_or_default();
    let ended = tokio::time::timeout(controller.deadline, reconcile).await;
    controller.metrics.reconcile_time.get_or_create(&labels).observe(begin.elapsed().as_secs_f64());
    let failure = match ended {
        Ok(Ok(after)) => {
            controller.count(if after.is_some() { "requeue_after" } else { "success" });
            work.finish(Ended::Well(after));
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("not done within {:?}", controller.deadline),
    };
    controller.count("error");
    controller.metrics.reconcile_errors.get_or_create(&labels).inc();
    // Once when it begins to fail; how often since then is in the metrics and in /debug/state.json.
    if work.failures() == 0 {
        tracing::warn!(
            controller = controller.name,
            object,
            error = failure,
            "a reconciliation failed; it is tried again"
        );
    }
    work.finish(Ended::Failed);
}
