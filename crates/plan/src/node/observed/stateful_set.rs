//! An observed StatefulSet.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::partial::partial_resource;
use super::pod::{ObservedPodSpec, ObservedVolume};

/// The fields of a StatefulSet that the operator reads, and its spec as text. It stays in the watch cache as long as
/// its node exists, and a deserialized pod template takes ten times the memory of its text. The text is only parsed to
/// detect drift.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedStatefulSet {
    api_version: Cow<'static, str>,
    kind: Cow<'static, str>,
    /// The metadata.
    pub metadata: ObjectMeta,
    spec: Box<RawValue>,
    #[serde(skip)]
    replicas: Option<i32>,
    status: ObservedStatus,
}

/// The fields of a StatefulSet status that the operator reads: which template its controller has observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObservedStatus {
    observed_generation: Option<i64>,
    update_revision: Option<String>,
}

impl ObservedStatefulSet {
    /// Returns the desired number of pods.
    pub(in crate::node) fn replicas(&self) -> Option<i32> {
        self.replicas
    }

    /// Returns the volumes of the pod template.
    pub(in crate::node) fn volumes(&self) -> Vec<ObservedVolume> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Template {
            spec: ObservedPodSpec,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            template: Template,
        }
        // The API server has validated the template.
        serde_json::from_str::<Spec>(self.spec.get()).unwrap_or_default().template.spec.volumes
    }

    /// Returns the revision of the newest template, once the StatefulSet controller has observed it.
    pub(in crate::node) fn newest_revision(&self) -> Option<&str> {
        let status = &self.status;
        let is_observed =
            status.observed_generation.is_some() && status.observed_generation >= self.metadata.generation;
        status.update_revision.as_deref().filter(|revision| is_observed && !revision.is_empty())
    }
}

impl<'de> Deserialize<'de> for ObservedStatefulSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Document {
            metadata: ObjectMeta,
            spec: Box<RawValue>,
            #[serde(default)]
            status: Option<ObservedStatus>,
        }
        #[derive(Deserialize)]
        struct Spec {
            replicas: Option<i32>,
        }
        let Document { metadata, spec, status } = Document::deserialize(deserializer)?;
        let parsed: Spec = serde_json::from_str(spec.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            api_version: StatefulSet::api_version(&()),
            kind: StatefulSet::kind(&()),
            metadata,
            spec,
            replicas: parsed.replicas,
            status: status.unwrap_or_default(),
        })
    }
}

impl TryFrom<&StatefulSet> for ObservedStatefulSet {
    type Error = serde_json::Error;

    fn try_from(set: &StatefulSet) -> Result<Self, Self::Error> {
        serde_json::from_str(&serde_json::to_string(set)?)
    }
}

/// Ignores the spec: the generation counts its changes.
impl PartialEq for ObservedStatefulSet {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.status == other.status
    }
}

partial_resource!(ObservedStatefulSet, StatefulSet);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(change: impl FnOnce(&mut Value)) -> ObservedStatefulSet {
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
    fn stateful_set_equality_compares_only_read_fields() {
        let observed = set(|_| {});
        assert_eq!((observed.replicas(), observed.newest_revision()), (Some(1), Some("a-1")));
        let written = serde_json::to_value(&observed).unwrap();
        assert_eq!(written["kind"], "StatefulSet");
        assert_eq!(written["spec"]["template"]["spec"]["containers"][0]["name"], "seid");
        assert_eq!(observed, set(|set| set["status"]["readyReplicas"] = json!(0)));
        assert_ne!(observed, set(|set| set["status"]["updateRevision"] = json!("a-2")));
        assert_ne!(observed, set(|set| set["metadata"]["generation"] = json!(3)));
    }

    #[test]
    fn revision_is_unknown_until_controller_observed_template() {
        assert_eq!(set(|set| set["metadata"]["generation"] = json!(3)).newest_revision(), None);
        assert_eq!(set(|set| set["status"] = json!({})).newest_revision(), None);
    }
}
