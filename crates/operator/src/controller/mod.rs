//! The controller of nodes: observe, decide, act, record.

mod act;
mod objects;
mod pass;
mod seen;
mod start;
mod ties;
mod watches;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::SeiNode;
use api::note::{Note, Tone};
use api::sei_node::SeiNodeStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use plan::Platform;
use plan::node::{Memo, notes};
use runtime::events::Events;
use runtime::{Key, write};

use self::objects::Objects;
pub(crate) use self::start::start;
use crate::metrics::NodeMetrics;
use crate::secrets::Secrets;
use crate::sidecar::Sidecars;

/// Why a pass ended before its status was stored. The next one begins anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The world is not as it was thought to be, or it is not known how it is.
    #[error("{what}: {why}")]
    LookAgain {
        /// The kind of object.
        what: &'static str,
        /// What was said.
        why: String,
    },
    /// The status was not stored.
    #[error("the status was not stored: {0}")]
    Status(String),
    /// The finalizer of the operator before us is still there.
    #[error("the finalizer of the operator before us was not removed: {0}")]
    Finalizer(String),
    /// Nothing was written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// The API server could not be asked.
    #[error("asking the API server: {0}")]
    Read(#[from] Box<kube::Error>),
    /// Decisions did not come to an end.
    #[error("no end of decisions in one pass; this is a defect of the operator")]
    Endless,
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Read(Box::new(error))
    }
}

/// The controller of nodes.
pub(crate) struct Controller {
    client: Client,
    platform: Platform,
    objects: Objects,
    sidecars: Sidecars,
    secrets: Secrets,
    events: Events,
    metrics: NodeMetrics,
    /// What was computed before, of each node.
    memos: Mutex<HashMap<Key, Arc<Memo>>>,
}

impl Controller {
    /// A random id for a plan.
    fn fresh_id() -> String {
        uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid().to_string()
    }

    /// Tells people and metrics what a stored status means.
    fn tell(&self, node: &SeiNode, before: Option<&SeiNodeStatus>) {
        let none = SeiNodeStatus::default();
        let (before, after) = (before.unwrap_or(&none), node.status.as_ref().unwrap_or(&none));
        self.events.send(node, &notes(node, before, after));
        self.metrics.stored(node, before, after, &Time(Timestamp::now()));
    }

    /// Tells people what was damaged and is put back.
    fn tell_repaired(&self, node: &SeiNode, repaired: &[String]) {
        let restored = |sentence: &String| Note {
            tone: Tone::Warning,
            reason: "ObjectRestored".into(),
            action: "Repair",
            message: sentence.clone(),
        };
        self.events.send(node, &repaired.iter().map(restored).collect::<Vec<_>>());
    }

    /// What was computed before about a node.
    fn memo(&self, key: &Key) -> Arc<Memo> {
        let mut memos = self.memos.lock().unwrap_or_else(PoisonError::into_inner);
        memos.entry(key.clone()).or_default().clone()
    }

    /// Nothing is remembered of a node that is gone.
    fn forget(&self, key: &Key) {
        self.objects.forget(key);
        self.sidecars.forget(key);
        self.memos.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
