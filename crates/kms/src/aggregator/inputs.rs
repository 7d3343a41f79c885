//! What the rollup depends on besides the object itself: the pods of API servers, and reports in objects of their own. An input that
//! cannot be read leaves the others evaluated, and is reported.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::kms::KmsTarget;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use plan::kms::rollup::{Inputs, UnavailableInput};
use runtime::watch::{Cache, WatchHealth};
use serde_json::Value;

use super::servers::{is_subject, kms_health_spec, live_servers, static_pod_nodes};
use super::target::ObjectRef;
use super::target_resource::{KmsHealthReport, UntypedObject};

/// An input counts as unavailable if its watch fails for longer: shorter outages are normal, and the cache bridges them.
const TOLERANCE: Duration = Duration::from_secs(30);

/// Cause of a watch of a kind that is not installed, so that it has no objects.
const NOT_INSTALLED: &str = "not_found";

/// A watched input.
pub(super) struct Input<K> {
    what: String,
    cache: Cache<K>,
    health: WatchHealth,
}

impl<K: Resource> Input<K> {
    pub(super) fn new(what: impl Into<String>, cache: Cache<K>, health: WatchHealth) -> Self {
        Self { what: what.into(), cache, health }
    }

    /// Returns why the input is unavailable. The text is constant while the cause is.
    pub(super) fn unavailable(&self) -> Option<UnavailableInput> {
        let failure = self.health.current_failure();
        let why = match (self.cache.is_synced(), failure) {
            (_, Some((_, NOT_INSTALLED))) => None,
            (true, Some((since, cause))) => (since > TOLERANCE).then_some(cause),
            (true, None) => None,
            (false, Some((_, cause))) => Some(cause),
            (false, None) => Some("not listed yet"),
        };
        why.map(|why| UnavailableInput { what: self.what.clone(), why: why.to_owned() })
    }
}

/// All inputs.
#[derive(Default)]
pub(super) struct Sources {
    /// Pods of OpenShift's API servers.
    pub(super) pods: HashMap<KmsTarget, Input<Pod>>,
    /// Pods in the namespaces that subjects of KMSHealth objects may be in.
    pub(super) subjects: BTreeMap<String, Input<Pod>>,
    /// Reports of KMSHealth objects that nodes store in objects of their own.
    pub(super) reports: Option<Input<UntypedObject<KmsHealthReport>>>,
}

impl Sources {
    /// Returns the inputs of an object.
    pub(super) fn of_object(&self, object: &ObjectRef, spec: &Value, status: &Value) -> Inputs {
        match object.target {
            KmsTarget::KmsHealth => self.of_kms_health(object, spec),
            target => {
                let pods = self.pods.get(&target);
                Inputs {
                    servers: pods.map(|pods| live_servers(&pods.cache.all(), object)).unwrap_or_default(),
                    planned_nodes: static_pod_nodes(target, status).collect(),
                    unavailable: pods.and_then(Input::unavailable).into_iter().collect(),
                    ..Inputs::default()
                }
            }
        }
    }

    fn of_kms_health(&self, object: &ObjectRef, spec: &Value) -> Inputs {
        let spec = kms_health_spec(spec);
        let subjects = spec.subjects.unwrap_or_default();
        let mut inputs = Inputs {
            only_nodes: spec.expected_nodes.into_iter().collect(),
            only_keys: spec.expected_keys,
            unavailable: self.reports.as_ref().and_then(Input::unavailable).into_iter().collect(),
            ..Inputs::default()
        };
        match self.subjects.get(&subjects.namespace) {
            Some(pods) => {
                let all: Vec<Arc<Pod>> =
                    pods.cache.all().into_iter().filter(|pod| is_subject(pod, &subjects)).collect();
                inputs.servers = live_servers(&all, object);
                inputs.unavailable.extend(pods.unavailable());
            }
            None => inputs.unavailable.push(UnavailableInput {
                what: format!("pods in {}", subjects.namespace),
                why: "not watched: add the namespace to --subject-namespaces".into(),
            }),
        }
        inputs
    }

    /// Returns the objects with reports of a KMSHealth, ordered by name.
    pub(super) fn report_objects(&self, object: &ObjectRef) -> Vec<Arc<UntypedObject<KmsHealthReport>>> {
        let Some(reports) = self.reports.as_ref().filter(|_| object.target == KmsTarget::KmsHealth) else {
            return Vec::new();
        };
        let mut all = reports.cache.all();
        all.retain(|one| one.spec["kmsHealth"] == *object.name);
        all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        all
    }

    /// Returns all inputs that are unavailable, for the debug state.
    pub(super) fn unavailable(&self) -> Vec<UnavailableInput> {
        let pods = self.pods.values().chain(self.subjects.values()).filter_map(Input::unavailable);
        pods.chain(self.reports.as_ref().and_then(Input::unavailable)).collect()
    }
}
