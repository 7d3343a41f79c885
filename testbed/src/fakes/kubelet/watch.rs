//! Watches the objects of one kind in one namespace and survives connection loss.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::environment::{Environment, Watched};
use super::objects::Key;

/// Delay before a lost watch is restarted. Short, because tests stop the API server and wait for what follows.
const RETRY: Duration = Duration::from_millis(200);

/// Watches until the task is aborted.
pub(super) async fn run<K>(api: Api<K>, config: watcher::Config, env: Arc<Environment>)
where
    K: Resource + Watched + Clone + Debug + DeserializeOwned + Send + 'static,
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
                object.clone().applied(key(&object), &env);
            }
            Ok(Some(Event::InitDone)) => {
                known.difference(&listed).for_each(|key| K::deleted(key, &env));
                known = std::mem::take(&mut listed);
            }
            Ok(Some(Event::Apply(object))) => {
                known.insert(key(&object));
                object.clone().applied(key(&object), &env);
            }
            Ok(Some(Event::Delete(object))) => {
                known.remove(&key(&object));
                K::deleted(&key(&object), &env);
            }
            Ok(None) => return,
            Err(error) => {
                env.log.record("watch", error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
