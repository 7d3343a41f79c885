//! Index of all fake pods by their dependencies and node. A change of one Secret must not wake a thousand pods.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::objects::{self, Dependency, Key};
use super::pod::FakePod;
use crate::fakes::sidecars::NodeName;

/// All fake pods, with indexes for wakeups.
#[derive(Debug, Default)]
pub(super) struct PodRegistry {
    pods: HashMap<Key, PodTask>,
    by_dependency: HashMap<Dependency, HashSet<Key>>,
    by_node: HashMap<NodeName, HashSet<Key>>,
}

/// A pod and its task, which is aborted with it.
#[derive(Debug)]
struct PodTask {
    pod: Arc<FakePod>,
    task: AbortHandle,
}

impl Drop for PodTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodRegistry {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<FakePod>> {
        self.pods.get(key).map(|task| &task.pod)
    }

    pub(super) fn insert(&mut self, key: Key, pod: Arc<FakePod>, task: AbortHandle) {
        for dependency in objects::dependencies(&pod.namespace, &pod.pod()) {
            self.by_dependency.entry(dependency).or_default().insert(key.clone());
        }
        self.by_node.entry(pod.node.clone()).or_default().insert(key.clone());
        self.pods.insert(key, PodTask { pod, task });
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<FakePod>> {
        let pod = self.pods.remove(key)?.pod.clone();
        for dependency in objects::dependencies(&pod.namespace, &pod.pod()) {
            unindex(&mut self.by_dependency, &dependency, key);
        }
        unindex(&mut self.by_node, &pod.node, key);
        Some(pod)
    }

    /// Aborts the tasks of all pods.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn wake_all(&self) {
        self.pods.values().for_each(|task| task.pod.wake());
    }

    /// Wakes the pods that depend on an object.
    pub(super) fn wake_dependents(&self, dependency: &Dependency) {
        self.wake(self.by_dependency.get(dependency));
    }

    /// Wakes the pods of a node.
    pub(super) fn wake_node(&self, node: &NodeName) {
        self.wake(self.by_node.get(node));
    }

    fn wake(&self, keys: Option<&HashSet<Key>>) {
        keys.into_iter().flatten().filter_map(|key| self.get(key)).for_each(|pod| pod.wake());
    }
}

fn unindex<K: Eq + Hash>(index: &mut HashMap<K, HashSet<Key>>, under: &K, key: &Key) {
    if let Some(keys) = index.get_mut(under) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(under);
        }
    }
}
