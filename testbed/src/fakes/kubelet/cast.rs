//! All pods that are played, found by what concerns them: a thousand pods must not all be looked at whenever one Secret
//! changes.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::objects::{self, Key, Need};
use super::part::Part;
use crate::fakes::sidecars::NodeName;

/// All pods that are played.
#[derive(Debug, Default)]
pub(super) struct Cast {
    played: HashMap<Key, Played>,
    by_need: HashMap<Need, HashSet<Key>>,
    by_node: HashMap<NodeName, HashSet<Key>>,
}

/// A pod and the one who plays it, which ends with it.
#[derive(Debug)]
struct Played {
    part: Arc<Part>,
    task: AbortHandle,
}

impl Drop for Played {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cast {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Part>> {
        self.played.get(key).map(|played| &played.part)
    }

    pub(super) fn insert(&mut self, key: Key, part: Arc<Part>, task: AbortHandle) {
        for need in objects::needs(&part.namespace, &part.pod()) {
            self.by_need.entry(need).or_default().insert(key.clone());
        }
        self.by_node.entry(part.node.clone()).or_default().insert(key.clone());
        self.played.insert(key, Played { part, task });
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<Part>> {
        let part = self.played.remove(key)?.part.clone();
        for need in objects::needs(&part.namespace, &part.pod()) {
            forget(&mut self.by_need, &need, key);
        }
        forget(&mut self.by_node, &part.node, key);
        Some(part)
    }

    /// Ends every play.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn wake_all(&self) {
        self.played.values().for_each(|played| played.part.wake());
    }

    /// Wakes those that need an object.
    pub(super) fn wake_needing(&self, need: &Need) {
        self.wake(self.by_need.get(need));
    }

    /// Wakes those of a node.
    pub(super) fn wake_of(&self, node: &NodeName) {
        self.wake(self.by_node.get(node));
    }

    fn wake(&self, keys: Option<&HashSet<Key>>) {
        keys.into_iter().flatten().filter_map(|key| self.get(key)).for_each(|part| part.wake());
    }
}

fn forget<K: Eq + Hash>(index: &mut HashMap<K, HashSet<Key>>, under: &K, key: &Key) {
    if let Some(keys) = index.get_mut(under) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(under);
        }
    }
}
