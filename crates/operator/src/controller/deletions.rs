//! Deleted nodes that were not reported yet. Nodes have no finalizer, so a node may be gone when it is reconciled: its last version is
//! kept until then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use api::SeiNode;
use runtime::Key;
use runtime::sync::lock;
use runtime::watch::Change;

/// The last versions of deleted nodes. Only a leader records them: a standby would report what the leader has reported.
#[derive(Debug, Default)]
pub(super) struct Deletions(Mutex<Option<HashMap<Key, Arc<SeiNode>>>>);

impl Deletions {
    /// Starts to record deletions, until the guard is dropped.
    pub(super) fn record_while_leading(self: &Arc<Self>) -> RecordingGuard {
        *lock(&self.0) = Some(HashMap::new());
        RecordingGuard(self.clone())
    }

    /// Records a node that was deleted.
    pub(super) fn update(&self, change: &Change<SeiNode>) {
        if let (Change::Deleted(node), Some(deleted)) = (change, lock(&self.0).as_mut()) {
            deleted.insert(Key::from_object(&**node), node.clone());
        }
    }

    /// Takes the last version of a node that was deleted.
    pub(super) fn take(&self, key: &Key) -> Option<Arc<SeiNode>> {
        lock(&self.0).as_mut()?.remove(key)
    }
}

/// Ends the recording when it is dropped.
pub(super) struct RecordingGuard(Arc<Deletions>);

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use api::sei_node::SeiNodeSpec;

    use super::*;

    #[test]
    fn only_a_leader_records_deletions_and_takes_each_once() {
        let deletions = Arc::<Deletions>::default();
        let node = Arc::new(SeiNode::new("a", SeiNodeSpec::default()));
        let key = Key::from_object(&*node);
        deletions.update(&Change::Deleted(node.clone()));
        let guard = deletions.record_while_leading();
        assert_eq!(deletions.take(&key), None, "deleted before this process led");
        deletions.update(&Change::Applied(node.clone(), None));
        assert_eq!(deletions.take(&key), None, "not deleted");
        deletions.update(&Change::Deleted(node.clone()));
        assert!(deletions.take(&key).is_some());
        assert_eq!(deletions.take(&key), None, "taken");
        deletions.update(&Change::Deleted(node));
        drop(guard);
        assert_eq!(deletions.take(&key), None, "leads no longer");
    }
}
