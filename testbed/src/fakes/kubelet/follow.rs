//! Follows the objects of one kind in one namespace, through every loss of the connection.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::objects::Key;
use super::stage::{Followed, Stage};

/// The time before a lost watch begins anew: tests stop API servers and wait for what comes after.
const RETRY: Duration = Duration::from_millis(200);

/// Follows until it is dropped.
pub(super) async fn follow<K>(api: Api<K>, config: watcher::Config, stage: Arc<Stage>)
where
    K: Resource + Followed + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = HashSet::new();
    let mut listed = HashSet::new();
    let mut events = watcher(api, config).boxed();
    loop {
        match events.try_next().await {
            Ok(Some(Event::Init)) => listed.clear(),
            Ok(Some(Event::InitApply(object))) => {
                listed.insert(key(&object));
                known.insert(key(&object));
                object.clone().seen(key(&object), &stage);
            }
            Ok(Some(Event::InitDone)) => {
                known.difference(&listed).for_each(|key| K::gone(key, &stage));
                known = std::mem::take(&mut listed);
            }
            Ok(Some(Event::Apply(object))) => {
                known.insert(key(&object));
                object.clone().seen(key(&object), &stage);
            }
            Ok(Some(Event::Delete(object))) => {
                known.remove(&key(&object));
                K::gone(&key(&object), &stage);
            }
            Ok(None) => return,
            Err(error) => {
                stage.log.say("watch", error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
