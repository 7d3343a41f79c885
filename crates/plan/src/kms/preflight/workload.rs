//! The objects that check a configuration: a pod with the plugins and the checker, and what it may do.

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kms::inject::{Beside, Options, inject};
use crate::kms::plugin::{Files, Refusal};
use crate::kms::secret_layout::Content;

/// Longest name of a pod.
const LONGEST_NAME: usize = 253;

/// Where the check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace: that of the API servers.
    pub namespace: String,
    /// The image of the checker.
    pub image: String,
    /// The checker's program and subcommand.
    pub command: Vec<String>,
    /// Whether the pod is in the network of its node, as static pods are.
    pub host_network: bool,
    /// The label of nodes that it may run on; none for all.
    pub node_label: Option<String>,
    /// Deadline of each call of a plugin, as a flag.
    pub call_timeout: String,
}

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The content of the secret.
    pub content: &'a Content,
    /// Its hash.
    pub hash: &'a str,
    /// Its fingerprint.
    pub fingerprint: &'a str,
    /// Which try it is.
    pub attempt: u32,
    /// The value by which it was asked for.
    pub retry: Option<&'a str>,
}

/// The pods: one on each of these nodes, since the way to the KMS is another from each; where there is no node to name, one that
/// waits for any.
pub fn pods(place: &Place, workload: &Workload<'_>, nodes: &[String]) -> Result<Vec<Pod>, Refusal> {
    if nodes.is_empty() {
        return Ok(vec![pod(place, workload, None, 1)?]);
    }
    nodes.iter().map(|node| pod(place, workload, Some(node), nodes.len())).collect()
}

fn pod(place: &Place, workload: &Workload<'_>, node: Option<&str>, of: usize) -> Result<Pod, Refusal> {
    let Workload { content, hash, fingerprint, attempt, retry } = workload;
    let options = Options {
        container: names::CONTAINER.into(),
        files: Files::Secret(names::SECRET.into()),
        beside: Beside::Checker,
    };
    let mut spec = inject(&spec(place, hash), content, &options)?;
    if let Some(node) = node {
        // Not by `nodeName`, which would put it also on a node that has no room for it, or that nothing may come to.
        let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
        let terms = json!([{ "matchFields": [field] }]);
        spec["affinity"] = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } });
    }
    let mut annotations = json!({
        names::HASH_ANNOTATION: hash,
        names::FINGERPRINT_ANNOTATION: fingerprint,
        names::ATTEMPT_ANNOTATION: attempt.to_string(),
        names::PODS_ANNOTATION: of.to_string(),
    });
    if let Some(retry) = retry {
        annotations[names::RETRY_ANNOTATION] = json!(retry);
    }
    let labels = json!({ names::APP_LABEL: names::APP });
    let meta = json!({ "namespace": place.namespace, "name": node.map_or_else(|| names::NAME.to_owned(), name), "labels": labels, "annotations": annotations });
    typed(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec }))
}

/// The name of the pod on a node; of nodes whose names are too long to be part of it, a digest.
#[must_use]
pub fn name(node: &str) -> String {
    let name = format!("{}-{node}", names::NAME);
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let digest: String = Sha256::digest(node).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digest}", names::NAME)
}

fn spec(place: &Place, hash: &str) -> Value {
    let field = |path: &str| json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": path } });
    let master = "node-role.kubernetes.io/master";
    let control_plane = "node-role.kubernetes.io/control-plane";
    let tolerate = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
    let mut spec = json!({
        "restartPolicy": "Never",
        "serviceAccountName": names::NAME,
        "priorityClassName": "system-cluster-critical",
        "hostNetwork": place.host_network,
        "tolerations": [tolerate(master), tolerate(control_plane)],
        "terminationGracePeriodSeconds": 5,
        // Nothing waits for the pod to be ready; they tell what it is going to post.
        "readinessGates": [{ "conditionType": names::RESULT }, { "conditionType": names::CONFIG_HASH }],
        "containers": [{
            "name": names::CONTAINER,
            "image": place.image,
            "imagePullPolicy": "IfNotPresent",
            "command": place.command,
            "args": [
                format!("--kms-call-timeout={}", place.call_timeout),
                "--config-hash=$(CONFIG_HASH)",
                "--pod-name=$(POD_NAME)",
                "--pod-namespace=$(POD_NAMESPACE)",
            ],
            "env": [
                { "name": "POD_NAME", "valueFrom": field("metadata.name") },
                { "name": "POD_NAMESPACE", "valueFrom": field("metadata.namespace") },
                { "name": "CONFIG_HASH", "value": hash },
            ],
            "resources": { "requests": { "cpu": "5m", "memory": "50Mi" } },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
                // As plugins are: the user of our own image may open nobody's sockets.
                "runAsUser": 0,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
        }],
    });
    if let Some(label) = &place.node_label {
        spec["nodeSelector"] = json!({ label: "" });
    }
    spec
}

/// The checker's identity.
pub fn service_account(namespace: &str) -> Result<ServiceAccount, Refusal> {
    typed(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(namespace) }))
}

/// What the checker may do: say what it has found, on the pods of the check.
pub fn role(namespace: &str, nodes: &[String]) -> Result<Role, Refusal> {
    let pods: Vec<String> = match nodes {
        [] => vec![names::NAME.to_owned()],
        nodes => nodes.iter().map(|node| name(node)).collect(),
    };
    let rule = |resource: &str, verb: &str| json!({ "apiGroups": [""], "resources": [resource], "resourceNames": pods, "verbs": [verb] });
    let rules = json!([rule("pods", "get"), rule("pods/status", "update")]);
    typed(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta(namespace), "rules": rules,
    }))
}

/// That it may.
pub fn role_binding(namespace: &str) -> Result<RoleBinding, Refusal> {
    let subject = json!({ "kind": "ServiceAccount", "name": names::NAME, "namespace": namespace });
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": names::NAME });
    typed(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta(namespace),
        "roleRef": role, "subjects": [subject],
    }))
}

fn meta(namespace: &str) -> Value {
    json!({ "namespace": namespace, "name": names::NAME })
}

fn typed<K: DeserializeOwned>(object: Value) -> Result<K, Refusal> {
    serde_json::from_value(object).map_err(|error| Refusal(format!("an object that cannot be made: {error}")))
}
