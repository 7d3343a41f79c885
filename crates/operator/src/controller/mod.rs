//! The node controller. Each reconcile runs four stages: observe, decide, act, record.

mod act;
mod decide;
mod deletions;
mod fleets;
mod object_store;
mod observe;
mod reconcile;
mod record;
mod reference_index;
mod reservations;
mod start;
mod stores;
mod update_slots;
mod volumes;
mod watches;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use plan::Platform;
use plan::node::RenderCache;
use runtime::events::EventRecorder;
use runtime::sync::lock;
use runtime::{Key, write};

use self::deletions::Deletions;
use self::reservations::Reservations;
pub(crate) use self::start::start;
use self::stores::ObjectStores;
use self::update_slots::UpdateSlots;
use self::volumes::VolumeReader;
use crate::chain_progress::ChainHeights;
use crate::metrics::NodeMetrics;
use crate::probe_failures::ProbeFailures;
use crate::secrets::SecretReader;
use crate::sidecar::Sidecars;

/// An error that ends a reconcile. The node is requeued with backoff. Only after [`Error::Refused`], the status is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The API server refused a write, or its answer was lost. The status says so.
    #[error("cannot write {kind}: {reason}")]
    Refused {
        /// The kind of object.
        kind: &'static str,
        /// The error of the write.
        reason: String,
    },
    /// The write was based on an outdated object.
    #[error("cannot write {kind}: {reason}")]
    OutdatedObject {
        /// The kind of object.
        kind: &'static str,
        /// The error of the write.
        reason: String,
    },
    /// The API server refused a write for a fleet, or its answer was lost. The status says so.
    #[error("cannot write {kind}: {reason}")]
    RefusedFleet {
        /// The kind of object.
        kind: String,
        /// The error of the write.
        reason: String,
    },
    /// A write for a fleet was based on an outdated object.
    #[error("cannot write {kind}: {reason}")]
    OutdatedFleet {
        /// The kind of object.
        kind: String,
        /// The error of the write.
        reason: String,
    },
    /// The status was not stored.
    #[error("cannot write status: {0}")]
    Status(String),
    /// The request was not sent.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// A read from the API server failed.
    #[error("cannot read from the API server: {0}")]
    Read(#[from] Box<kube::Error>),
    /// The decisions of one reconcile did not converge.
    #[error("reconcile did not converge after {} decisions (bug)", decide::MAX_DECISIONS)]
    NotConverged,
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Read(Box::new(error))
    }
}

/// The node controller.
pub(crate) struct Controller {
    client: Client,
    platform: Platform,
    stores: ObjectStores,
    sidecars: Sidecars,
    secrets: SecretReader,
    volumes: VolumeReader,
    events: EventRecorder,
    metrics: NodeMetrics,
    deletions: Arc<Deletions>,
    reservations: Reservations,
    render_caches: Mutex<HashMap<Key, Arc<RenderCache>>>,
    update_slots: Arc<UpdateSlots>,
    heights: Arc<ChainHeights>,
    probe_failures: ProbeFailures,
    /// Since when this process has been leading.
    active_since: Mutex<Option<Time>>,
}

impl Controller {
    /// Returns the render cache of a node.
    fn render_cache(&self, key: &Key) -> Arc<RenderCache> {
        let mut caches = lock(&self.render_caches);
        caches.entry(key.clone()).or_default().clone()
    }

    /// Drops all state kept for a deleted node.
    async fn forget(&self, key: &Key) {
        self.reservations.release(key).await;
        self.stores.forget(key);
        self.sidecars.forget(key);
        self.heights.forget(key);
        self.probe_failures.forget(key);
        lock(&self.render_caches).remove(key);
    }
}
