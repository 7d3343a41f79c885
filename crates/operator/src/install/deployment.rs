//! The operator's pods.

use serde_json::{Value, json};

use super::{ACCOUNT, NAMESPACE};

/// The ConfigMap with the operator's settings, each under its environment variable.
pub(super) const SETTINGS: &str = "outrigger-operator";

/// The image, as `make image` names it.
const IMAGE: &str = concat!("outrigger.dev/outrigger:", env!("CARGO_PKG_VERSION"));

/// The token for sidecars whose proxies ask for an audience of their own. It is there in any case, so that settings decide alone
/// whether it is used: OUTRIGGER_PROXY_TOKEN_AUDIENCE and OUTRIGGER_SIDECAR_TOKEN_FILE.
const AUDIENCE: &str = "sidecars.sei.io";
const TOKEN: (&str, &str, &str) = ("sidecar-token", "/var/run/secrets/outrigger", "sidecar-token");

/// How long such a token is good. The kubelet replaces it in time.
const TOKEN_SECONDS: u32 = 3_600;

/// The label by which network policies let the operator through to sidecars.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "outrigger-operator");

const METRICS: u16 = 8080;

const PROBES: u16 = 8081;

fn labels() -> Value {
    json!({ LABEL.0: LABEL.1 })
}

/// Nothing may run there that needs more than the strictest of the standards allows.
pub(super) fn namespace() -> Vec<Value> {
    let standard = "pod-security.kubernetes.io";
    let labels =
        json!({ format!("{standard}/enforce"): "restricted", format!("{standard}/warn"): "restricted" });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE, "labels": labels } }),
    ]
}

/// Two of them: one works, and the other takes over when the first is lost with its machine.
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
            { "name": "OUTRIGGER_POD_LABELS", "value": format!("{}={}", LABEL.0, LABEL.1) },
        ],
        "ports": [
            { "name": "metrics", "containerPort": METRICS },
            { "name": "probes", "containerPort": PROBES },
        ],
        "volumeMounts": [{ "name": TOKEN.0, "mountPath": TOKEN.1, "readOnly": true }],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": { "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "memory": "512Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        // What a process says last is shown where people look first.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": labels() },
    });
    let token = json!({ "path": TOKEN.2, "audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS });
    let pod = json!({
        "serviceAccountName": ACCOUNT,
        "volumes": [{ "name": TOKEN.0, "projected": { "sources": [{ "serviceAccountToken": token }] } }],
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

/// Nobody has to reach the operator but those who scrape and probe it.
pub(super) fn network_policy() -> Vec<Value> {
    vec![json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": ACCOUNT, "namespace": NAMESPACE },
        "spec": {
            "podSelector": { "matchLabels": labels() },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": [{ "port": METRICS }, { "port": PROBES }] }],
        },
    })]
}
