//! Everything that happened to a namespace's objects, in the order of the API server's own clock: versions of all objects of
//! one store can be compared, so that "before" and "after" are no matter of luck.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use futures_util::TryStreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use testbed::Error;
use testbed::harness::wait;
use tokio::task::JoinSet;

use crate::ground::{Ground, SOON};

/// What happened to an object.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: String,
    pub name: String,
    /// The version of the whole store.
    pub at: u64,
    pub gone: bool,
    pub object: Value,
}

impl Entry {
    /// The status of a node.
    pub fn status(&self) -> SeiNodeStatus {
        serde_json::from_value(self.object["status"].clone()).unwrap_or_default()
    }
}

type Entries = Arc<Mutex<Vec<Entry>>>;

/// The diary of a namespace, from its beginning on.
pub struct Diary {
    entries: Entries,
    watches: JoinSet<()>,
}

impl Diary {
    /// Begins a diary. Everything that happens after this returned is in it.
    pub async fn begin(ground: &Ground<'_>) -> Result<Self, Error> {
        let mut diary = Self { entries: Entries::default(), watches: JoinSet::new() };
        diary.follow::<SeiNode>(ground).await?;
        diary.follow::<StatefulSet>(ground).await?;
        diary.follow::<Service>(ground).await?;
        diary.follow::<ConfigMap>(ground).await?;
        diary.follow::<NetworkPolicy>(ground).await?;
        diary.follow::<PersistentVolumeClaim>(ground).await?;
        diary.follow::<Job>(ground).await?;
        diary.follow::<Pod>(ground).await?;
        Ok(diary)
    }

    async fn follow<K>(&mut self, ground: &Ground<'_>) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Send
            + 'static,
    {
        let api: Api<K> = ground.api();
        let from = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
        let entries = self.entries.clone();
        self.watches.spawn(async move {
            let Ok(events) = api.watch(&WatchParams::default(), &from).await else { return };
            let mut events = pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                let (object, gone) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
                };
                let entry = Entry {
                    kind: K::kind(&()).into_owned(),
                    name: object.name_any(),
                    at: object.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default(),
                    gone,
                    object: serde_json::to_value(&object).unwrap_or_default(),
                };
                entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            }
        });
        Ok(())
    }

    /// What happened to an object so far, in its order.
    pub fn of(&self, kind: &str, name: &str) -> Vec<Entry> {
        let all = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|entry| entry.kind == kind && entry.name == name).cloned().collect()
    }

    /// Everything that happened to objects of a kind so far.
    pub fn of_kind(&self, kind: &str) -> Vec<Entry> {
        let all = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|entry| entry.kind == kind).cloned().collect()
    }

    /// What happened to a node, at least until it was as it was read.
    pub async fn of_node(&self, node: &SeiNode) -> Result<Vec<Entry>, Error> {
        let read = node.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default();
        let name = node.name_any();
        wait::until(format!("the diary of {name}"), SOON, || async {
            let entries = self.of("SeiNode", &name);
            if entries.iter().any(|entry| entry.at >= read) { Ok(entries) } else { Err("it is behind") }
        })
        .await
    }

    /// The first time that something was so.
    pub async fn first(
        &self,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Entry, Error> {
        wait::until(format!("{kind} {name} in the diary"), SOON, || async {
            let found = self.of(kind, name).into_iter().find(|entry| wanted(entry));
            found.ok_or("it never was so")
        })
        .await
    }

    /// How many pods a node has had so far.
    pub fn pods_of(&self, node: &str) -> usize {
        let entries = self.of("Pod", &format!("{node}-0"));
        let uids: std::collections::BTreeSet<String> =
            entries.iter().map(|entry| entry.object["metadata"]["uid"].to_string()).collect();
        uids.len()
    }

    /// The ids of all plans that a node has had, in their order.
    pub fn plans_of(&self, node: &str) -> Vec<String> {
        let mut ids = Vec::new();
        for entry in self.of("SeiNode", node) {
            if let Some(plan) = entry.status().plan
                && !ids.contains(&plan.id)
            {
                ids.push(plan.id);
            }
        }
        ids
    }
}

/// The image of seid in a pod.
pub fn image_of(pod: &Value) -> Option<&str> {
    let containers = pod["spec"]["containers"].as_array()?;
    containers.iter().find(|one| one["name"] == "seid")?["image"].as_str()
}

/// Whether seid runs in a pod.
pub fn seid_runs(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    statuses.iter().any(|one| one["name"] == "seid" && one["state"]["running"].is_object())
}
