//! Preflight objects: a pod with the plugins and the checker, its ServiceAccount and RBAC.

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kms::inject::{InjectOptions, SocketConsumer, inject};
use crate::kms::plugin::{InvalidKmsConfig, PluginFiles};
use crate::kms::secret_layout::EncryptionSecret;

/// Maximum length of a pod name.
const MAX_NAME_LENGTH: usize = 253;

/// Settings of preflight pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightPodConfig {
    /// Namespace of the API servers.
    pub namespace: String,
    /// Image of the checker.
    pub image: String,
    /// Command of the checker.
    pub command: Vec<String>,
    /// Whether the pod uses the host network, like static pods.
    pub host_network: bool,
    /// Label of eligible nodes; `None` for all nodes.
    pub node_label: Option<String>,
    /// Timeout of each plugin call, in flag syntax.
    pub call_timeout: String,
}

/// Configuration to check.
#[derive(Clone, Copy, Debug)]
pub struct PreflightWorkload<'a> {
    /// Secret content.
    pub content: &'a EncryptionSecret,
    /// Hash.
    pub hash: &'a str,
    /// Fingerprint.
    pub fingerprint: &'a str,
    /// Attempt number.
    pub attempt: u32,
    /// Retry annotation that requested the attempt.
    pub retry: Option<&'a str>,
}

/// Renders one pod per node, because the network path to the KMS differs between nodes. Without nodes, renders one pod that can be
/// scheduled anywhere.
pub fn render_pods(
    config: &PreflightPodConfig,
    workload: &PreflightWorkload<'_>,
    nodes: &[String],
) -> Result<Vec<Pod>, InvalidKmsConfig> {
    if nodes.is_empty() {
        return Ok(vec![pod(config, workload, None, 1)?]);
    }
    nodes.iter().map(|node| pod(config, workload, Some(node), nodes.len())).collect()
}

fn pod(
    config: &PreflightPodConfig,
    workload: &PreflightWorkload<'_>,
    node: Option<&str>,
    of: usize,
) -> Result<Pod, InvalidKmsConfig> {
    let PreflightWorkload { content, hash, fingerprint, attempt, retry } = workload;
    let options = InjectOptions {
        container: names::CONTAINER.into(),
        files: PluginFiles::Secret(names::SECRET.into()),
        consumer: SocketConsumer::Checker,
    };
    let mut spec = inject(&pod_spec(config, hash), content, &options)?;
    if let Some(node) = node {
        // Not `nodeName`, which bypasses the scheduler and ignores capacity and taints.
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
    let meta = json!({ "namespace": config.namespace, "name": node.map_or_else(|| names::NAME.to_owned(), pod_name), "labels": labels, "annotations": annotations });
    deserialize(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec }))
}

/// Returns the pod name for a node. Long node names are replaced by a digest.
#[must_use]
pub fn pod_name(node: &str) -> String {
    let name = format!("{}-{node}", names::NAME);
    if name.len() <= MAX_NAME_LENGTH {
        return name;
    }
    let digest: String = Sha256::digest(node).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digest}", names::NAME)
}

fn pod_spec(config: &PreflightPodConfig, hash: &str) -> Value {
    let field = |path: &str| json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": path } });
    let master = "node-role.kubernetes.io/master";
    let control_plane = "node-role.kubernetes.io/control-plane";
    let tolerate = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
    let mut spec = json!({
        "restartPolicy": "Never",
        "serviceAccountName": names::NAME,
        "priorityClassName": "system-cluster-critical",
        "hostNetwork": config.host_network,
        "tolerations": [tolerate(master), tolerate(control_plane)],
        "terminationGracePeriodSeconds": 5,
        // Readiness is not used; the gates document the conditions that the pod reports.
        "readinessGates": [{ "conditionType": names::RESULT }, { "conditionType": names::CONFIG_HASH }],
        "containers": [{
            "name": names::CONTAINER,
            "image": config.image,
            "imagePullPolicy": "IfNotPresent",
            "command": config.command,
            "args": [
                format!("--kms-call-timeout={}", config.call_timeout),
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
                // Same user as the plugins: the user of the Outrigger image cannot open their sockets.
                "runAsUser": 0,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
        }],
    });
    if let Some(label) = &config.node_label {
        spec["nodeSelector"] = json!({ label: "" });
    }
    spec
}

/// Renders the ServiceAccount of the checker.
pub fn render_service_account(namespace: &str) -> Result<ServiceAccount, InvalidKmsConfig> {
    deserialize(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(namespace) }))
}

/// Renders the Role of the checker, which may report results in the status of the preflight pods.
pub fn render_role(namespace: &str, nodes: &[String]) -> Result<Role, InvalidKmsConfig> {
    let pods: Vec<String> = match nodes {
        [] => vec![names::NAME.to_owned()],
        nodes => nodes.iter().map(|node| pod_name(node)).collect(),
    };
    let rule = |resource: &str, verb: &str| json!({ "apiGroups": [""], "resources": [resource], "resourceNames": pods, "verbs": [verb] });
    let rules = json!([rule("pods", "get"), rule("pods/status", "update")]);
    deserialize(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta(namespace), "rules": rules,
    }))
}

/// Renders the RoleBinding of the checker.
pub fn render_role_binding(namespace: &str) -> Result<RoleBinding, InvalidKmsConfig> {
    let subject = json!({ "kind": "ServiceAccount", "name": names::NAME, "namespace": namespace });
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": names::NAME });
    deserialize(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta(namespace),
        "roleRef": role, "subjects": [subject],
    }))
}

fn meta(namespace: &str) -> Value {
    json!({ "namespace": namespace, "name": names::NAME })
}

fn deserialize<K: DeserializeOwned>(object: Value) -> Result<K, InvalidKmsConfig> {
    serde_json::from_value(object).map_err(|error| InvalidKmsConfig(format!("invalid object: {error}")))
}
