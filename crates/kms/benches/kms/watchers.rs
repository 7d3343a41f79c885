//! Watches of the object, as operators have them: number and size of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use testbed::Error;
use tokio::task::JoinSet;

use crate::environment::{Environment, Object};

/// Number of watches.
pub const COUNT: usize = 3;

/// Events and bytes received by all watches.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub events: usize,
    pub bytes: usize,
}

/// Open watches, closed on drop.
pub struct Watchers {
    received: Arc<[AtomicUsize; 2]>,
    tasks: JoinSet<()>,
}

impl Watchers {
    /// Starts the watches. Events are counted and not parsed: the work of operators is not measured.
    pub async fn start(environment: &Environment, object: Object) -> Result<Self, Error> {
        let received = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let mut tasks = JoinSet::new();
        let (path, _) = object.paths();
        for _ in 0..COUNT {
            let request = Request::get(format!("{path}?watch=true")).body(Body::empty());
            let request = request.map_err(|error| Error::Other(error.to_string()))?;
            // Each has its own connection, like separate processes.
            let mut body = environment.plane.client().await?.send(request).await?.into_body();
            let counts = received.clone();
            tasks.spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    let Ok(bytes) = frame.into_data() else { continue };
                    // Each event is a line.
                    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
                    counts[0].fetch_add(lines, Ordering::Relaxed);
                    counts[1].fetch_add(bytes.len(), Ordering::Relaxed);
                }
            });
        }
        Ok(Self { received, tasks })
    }

    /// Returns the totals so far. Fails if a watch ended.
    pub fn received(&mut self) -> Result<Received, Error> {
        if self.tasks.try_join_next().is_some() {
            return Err(Error::Other("a watch ended: see the log of kube-apiserver".into()));
        }
        let [events, bytes] = &*self.received;
        Ok(Received { events: events.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) })
    }
}
