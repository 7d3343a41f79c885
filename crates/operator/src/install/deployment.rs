//! The namespace, Deployment and NetworkPolicy of the operator.

use api::names::label;
use serde_json::{Value, json};

use super::{ACCOUNT, NAMESPACE};

/// The ConfigMap with the settings of the operator, keyed by environment variable. Not the name of the ServiceAccount: kustomize adds a hash,
/// also in `resourceNames` of the same name.
pub(super) const SETTINGS: &str = "outrigger-operator-settings";

/// The image that `make image` builds.
const IMAGE: &str = concat!("outrigger.dev/outrigger:", env!("CARGO_PKG_VERSION"));

/// The label of the operator's pods, which network policies of nodes select.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "outrigger-operator");

const METRICS_PORT: u16 = 8080;

const PROBES_PORT: u16 = 8081;

fn labels() -> Value {
    json!({ LABEL.0: LABEL.1 })
}

/// The namespace enforces the `restricted` Pod Security Standard.
pub(super) fn namespace() -> Vec<Value> {
    let prefix = "pod-security.kubernetes.io";
    let labels = json!({ format!("{prefix}/enforce"): "restricted", format!("{prefix}/warn"): "restricted" });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE, "labels": labels } }),
    ]
}

/// Two replicas: the standby takes over when the leader is lost with its node.
pub(super) fn deployment() -> Vec<Value> {
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "probes" } });
    let container = json!({
        "name": "operator",
        "image": IMAGE,
        "args": ["operator"],
        "envFrom": [{ "configMapRef": { "name": SETTINGS } }],
        "env": [
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_SERVICE_ACCOUNT", "spec.serviceAccountName"),
            // The kubelet expands it.
            { "name": "OUTRIGGER_TOKEN_SERVICE_ACCOUNT", "value": "$(POD_NAMESPACE)/$(POD_SERVICE_ACCOUNT)" },
            { "name": "OUTRIGGER_POD_LABELS", "value": format!("{}={}", LABEL.0, LABEL.1) },
        ],
        "ports": [
            { "name": "metrics", "containerPort": METRICS_PORT },
            { "name": "probes", "containerPort": PROBES_PORT },
        ],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": { "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "memory": "512Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        // Shows the last log lines in the status of the pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": labels() },
    });
    let pod = json!({
        "serviceAccountName": ACCOUNT,
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "topologySpreadConstraints": [spread],
    });
    vec![json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": ACCOUNT, "namespace": NAMESPACE, "labels": labels() },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels() },
            "template": { "metadata": { "labels": labels() }, "spec": pod },
        },
    })]
}

/// Allows ingress only to the metrics port, from namespaces with a label. Probes need no rule: policies do not apply to the kubelet of
/// the pod's machine.
pub(super) fn network_policy() -> Vec<Value> {
    vec![json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": ACCOUNT, "namespace": NAMESPACE },
        "spec": {
            "podSelector": { "matchLabels": labels() },
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{ "namespaceSelector": { "matchLabels": { (label::SCRAPE): "true" } } }],
                "ports": [{ "port": METRICS_PORT }],
            }],
        },
    })]
}
