//! The history of all objects in a namespace, ordered by resourceVersion. Versions of one etcd store are comparable across
//! kinds, so that tests can assert which write came first.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use futures_util::TryStreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use runtime::sync::lock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use testbed::Error;
use testbed::harness::wait;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, TIMEOUT};

/// One version of an object.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: String,
    pub name: String,
    /// The resourceVersion.
    pub version: u64,
    pub is_deleted: bool,
    pub object: Value,
}

impl Entry {
    /// Returns the status of a node.
    pub fn status(&self) -> SeiNodeStatus {
        serde_json::from_value(self.object["status"].clone()).unwrap_or_default()
    }
}

type Entries = Arc<Mutex<Vec<Entry>>>;

/// The history of a namespace since the start of its recording.
pub struct History {
    entries: Entries,
    watches: JoinSet<()>,
}

impl History {
    /// Starts to record. Every later change is in the history.
    pub async fn start(fixture: &Fixture<'_>) -> Result<Self, Error> {
        let mut history = Self { entries: Entries::default(), watches: JoinSet::new() };
        history.watch::<SeiNode>(fixture).await?;
        history.watch::<StatefulSet>(fixture).await?;
        history.watch::<Service>(fixture).await?;
        history.watch::<ConfigMap>(fixture).await?;
        history.watch::<NetworkPolicy>(fixture).await?;
        history.watch::<PodDisruptionBudget>(fixture).await?;
        history.watch::<PersistentVolumeClaim>(fixture).await?;
        history.watch::<Job>(fixture).await?;
        history.watch::<Pod>(fixture).await?;
        Ok(history)
    }

    async fn watch<K>(&mut self, fixture: &Fixture<'_>) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Send
            + 'static,
    {
        let api: Api<K> = fixture.api();
        let from = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
        let entries = self.entries.clone();
        self.watches.spawn(async move {
            let Ok(events) = api.watch(&WatchParams::default(), &from).await else { return };
            let mut events = pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                let (object, is_deleted) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
                };
                let entry = Entry {
                    kind: K::kind(&()).into_owned(),
                    name: object.name_any(),
                    version: object.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default(),
                    is_deleted,
                    object: serde_json::to_value(&object).unwrap_or_default(),
                };
                lock(&entries).push(entry);
            }
        });
        Ok(())
    }

    /// Returns the versions of an object so far, in order.
    pub fn entries_of(&self, kind: &str, name: &str) -> Vec<Entry> {
        let all = lock(&self.entries);
        all.iter().filter(|entry| entry.kind == kind && entry.name == name).cloned().collect()
    }

    /// Returns the versions of all objects of a kind so far.
    pub fn entries_of_kind(&self, kind: &str) -> Vec<Entry> {
        let all = lock(&self.entries);
        all.iter().filter(|entry| entry.kind == kind).cloned().collect()
    }

    /// Returns the versions of a node, at least up to the version that was read.
    pub async fn entries_of_node(&self, node: &SeiNode) -> Result<Vec<Entry>, Error> {
        let read = node.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default();
        let name = node.name_any();
        wait::until(format!("history of {name}"), TIMEOUT, || async {
            let entries = self.entries_of("SeiNode", &name);
            if entries.iter().any(|entry| entry.version >= read) {
                Ok(entries)
            } else {
                Err("the watch is behind")
            }
        })
        .await
    }

    /// Waits for the first version of an object that fulfills a condition.
    pub async fn first(
        &self,
        kind: &str,
        name: &str,
        condition: impl Fn(&Entry) -> bool,
    ) -> Result<Entry, Error> {
        wait::until(format!("{kind} {name} in the history"), TIMEOUT, || async {
            let found = self.entries_of(kind, name).into_iter().find(|entry| condition(entry));
            found.ok_or("no version matches")
        })
        .await
    }

    /// Returns how many pods a node has had so far.
    pub fn pod_count(&self, node: &str) -> usize {
        let entries = self.entries_of("Pod", &format!("{node}-0"));
        let uids: std::collections::BTreeSet<String> =
            entries.iter().map(|entry| entry.object["metadata"]["uid"].to_string()).collect();
        uids.len()
    }

    /// Returns the ids of all plans of a node, in order.
    pub fn plan_ids(&self, node: &str) -> Vec<String> {
        let mut ids = Vec::new();
        for entry in self.entries_of("SeiNode", node) {
            if let Some(plan) = entry.status().plan
                && !ids.contains(&plan.id)
            {
                ids.push(plan.id);
            }
        }
        ids
    }
}

/// Returns the image of seid in a pod.
pub fn seid_image(pod: &Value) -> Option<&str> {
    let containers = pod["spec"]["containers"].as_array()?;
    containers.iter().find(|container| container["name"] == "seid")?["image"].as_str()
}

/// True when seid runs in a pod.
pub fn is_seid_running(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    statuses.iter().any(|status| status["name"] == "seid" && status["state"]["running"].is_object())
}
