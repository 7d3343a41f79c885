//! A StatefulSet as it was seen.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::seen::seen_of;

/// What is read of a StatefulSet, and its spec as text: each is kept as long as its node is there, and a pod's template takes
/// ten times the memory when it is read. The text is looked at only to see whether somebody has changed it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenSet {
    api_version: Cow<'static, str>,
    kind: Cow<'static, str>,
    /// Its metadata.
    pub metadata: ObjectMeta,
    spec: Box<RawValue>,
    #[serde(skip)]
    replicas: Option<i32>,
    status: SeenStatus,
}

/// What is read of a StatefulSet's status: which template its controller knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenStatus {
    observed_generation: Option<i64>,
    update_revision: Option<String>,
}

impl SeenSet {
    /// How many pods it is to have.
    pub(super) fn replicas(&self) -> Option<i32> {
        self.replicas
    }

    /// The revision of its template, once its controller has seen the newest one.
    pub(super) fn newest_revision(&self) -> Option<&str> {
        let status = &self.status;
        let known =
            status.observed_generation.is_some() && status.observed_generation >= self.metadata.generation;
        status.update_revision.as_deref().filter(|revision| known && !revision.is_empty())
    }
}

impl<'de> Deserialize<'de> for SeenSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Text {
            metadata: ObjectMeta,
            spec: Box<RawValue>,
            #[serde(default)]
            status: Option<SeenStatus>,
        }
        #[derive(Deserialize)]
        struct Spec {
            replicas: Option<i32>,
        }
        let Text { metadata, spec, status } = Text::deserialize(deserializer)?;
        let read: Spec = serde_json::from_str(spec.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            api_version: StatefulSet::api_version(&()),
            kind: StatefulSet::kind(&()),
            metadata,
            spec,
            replicas: read.replicas,
            status: status.unwrap_or_default(),
        })
    }
}

impl TryFrom<&StatefulSet> for SeenSet {
    type Error = serde_json::Error;

    fn try_from(set: &StatefulSet) -> Result<Self, Self::Error> {
        serde_json::from_str(&serde_json::to_string(set)?)
    }
}

/// The spec's text is left out: the generation counts its changes.
impl PartialEq for SeenSet {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.status == other.status
    }
}

seen_of!(SeenSet, StatefulSet);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(change: impl FnOnce(&mut Value)) -> SeenSet {
        let mut set = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": "a", "generation": 2, "resourceVersion": "7" },
            "spec": { "replicas": 1, "template": { "spec": { "containers": [{ "name": "seid" }] } } },
            "status": { "observedGeneration": 2, "updateRevision": "a-1", "readyReplicas": 1 },
        });
        change(&mut set);
        serde_json::from_str(&set.to_string()).unwrap()
    }

    #[test]
    fn what_was_seen_is_all_there_and_only_what_is_read_tells_two_apart() {
        let seen = set(|_| {});
        assert_eq!((seen.replicas(), seen.newest_revision()), (Some(1), Some("a-1")));
        let written = serde_json::to_value(&seen).unwrap();
        assert_eq!(written["kind"], "StatefulSet");
        assert_eq!(written["spec"]["template"]["spec"]["containers"][0]["name"], "seid");
        assert_eq!(seen, set(|set| set["status"]["readyReplicas"] = json!(0)));
        assert_ne!(seen, set(|set| set["status"]["updateRevision"] = json!("a-2")));
        assert_ne!(seen, set(|set| set["metadata"]["generation"] = json!(3)));
    }

    #[test]
    fn a_revision_is_known_once_its_controller_has_seen_the_template() {
        assert_eq!(set(|set| set["metadata"]["generation"] = json!(3)).newest_revision(), None);
        assert_eq!(set(|set| set["status"] = json!({})).newest_revision(), None);
    }
}
