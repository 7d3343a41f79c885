//! Watchers of the object, as operators have them: how often they are woken, and by how much.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use testbed::Error;
use tokio::task::JoinSet;

use crate::world::{Object, World};

/// Operators that watch the object, each by one watch.
pub const COUNT: usize = 3;

/// What all watchers have received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub events: usize,
    pub bytes: usize,
}

/// Open watches; they end when dropped.
pub struct Watchers {
    received: Arc<[AtomicUsize; 2]>,
    tasks: JoinSet<()>,
}

impl Watchers {
    /// Watches the object. What is received is counted, and not read: an operator's own work is not measured here.
    pub async fn start(world: &World, object: Object) -> Result<Self, Error> {
        let received = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let mut tasks = JoinSet::new();
        let (path, _) = object.paths();
        for _ in 0..COUNT {
            let request = Request::get(format!("{path}?watch=true")).body(Body::empty());
            let request = request.map_err(|error| Error::Refused(error.to_string()))?;
            // Each has a connection of its own, as processes have.
            let mut body = world.plane.client().await?.send(request).await?.into_body();
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

    /// What all of them have received so far; an error when one was cut off.
    pub fn received(&mut self) -> Result<Received, Error> {
        if self.tasks.try_join_next().is_some() {
            return Err(Error::Refused("a watch of the object has ended: see kube-apiserver's log".into()));
        }
        let [events, bytes] = &*self.received;
        Ok(Received { events: events.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) })
    }
}
