//! A static pod with the reporter as a native sidecar before the API server's container.

use std::path::Path;

use serde_json::{Value, json};
use testbed::demo::kms_health::{INTERVAL, NAME};

/// The image of both containers.
pub const IMAGE: &str = "outrigger.dev/outrigger:dev";

/// Mount path of the reporter's files.
const FILES: &str = "/files";

/// Returns a static pod with this server container. The reporter gets the plugin's socket and its kubeconfig from a host directory.
pub fn static_pod(files: &Path, server: Value, server_volumes: &[Value]) -> Value {
    let node =
        json!([{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }]);
    let mut volumes = server_volumes.to_vec();
    volumes.push(json!({ "name": "files", "hostPath": { "path": files } }));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "kube-apiserver", "namespace": "kube-system" },
        "spec": {
            "hostNetwork": true,
            // The host files belong to root.
            "securityContext": { "runAsUser": 0 },
            "terminationGracePeriodSeconds": 1,
            "initContainers": [{
                "name": "kms-health-reporter", "image": IMAGE, "imagePullPolicy": "Never", "restartPolicy": "Always",
                "env": node,
                "args": [
                    "kms-reporter", format!("--kms-sockets=unix://{FILES}/kms-1.sock"), format!("--socket-dir={FILES}"),
                    "--node-name=$(NODE_NAME)", format!("--kubeconfig={FILES}/kubeconfig"), "--target=kmshealth",
                    format!("--target-name={NAME}"), "--publish=kmshealth", format!("--interval={INTERVAL}"),
                    "--read-timeout=500ms", "--write-timeout=400ms",
                ],
                "volumeMounts": [{ "name": "files", "mountPath": FILES, "readOnly": true }],
            }],
            "containers": [server],
            "volumes": volumes,
        },
    })
}
