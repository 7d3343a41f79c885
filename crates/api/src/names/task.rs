//! Types of the tasks that the operator does itself. They stand in stored plans: a plan of an older operator must be
//! understood by a newer one. Those that the sidecar does are in [`crate::sidecar_wire::TaskType`].

names! {
    /// Of nodes.
    node: &str {
        /// Make the data volume's claim, or check the imported one.
        ENSURE_DATA_PVC = "ensure-data-pvc";
        /// Check the key that signs blocks.
        VALIDATE_SIGNING_KEY = "validate-signing-key";
        /// Check the key that identifies the node.
        VALIDATE_NODE_KEY = "validate-node-key";
        /// Check the operating account's keys.
        VALIDATE_OPERATOR_KEYRING = "validate-operator-keyring";
        /// Write the proxy's configuration.
        APPLY_PROXY_CONFIG = "apply-rbac-proxy-config";
        /// Ask for the sidecar's certificate.
        APPLY_SIDECAR_CERT = "apply-sidecar-cert";
        /// Wait until the sidecar's certificate is there.
        WAIT_FOR_SIDECAR_TLS_SECRET = "wait-for-sidecar-tls-secret";
        /// Remove the sidecar's certificate.
        REMOVE_SIDECAR_CERT = "remove-sidecar-cert";
        /// Say who may reach which port.
        APPLY_NETWORK_POLICY = "apply-network-policy";
        /// Write the StatefulSet.
        APPLY_STATEFULSET = "apply-statefulset";
        /// Write the Service.
        APPLY_SERVICE = "apply-service";
        /// Delete the pod of an older revision.
        REPLACE_POD = "replace-pod";
        /// See that the image runs, and with what else the pod was made.
        OBSERVE_IMAGE = "observe-image";
        /// See how the sidecar's API is served.
        OBSERVE_SIDECAR_TLS = "observe-sidecar-tls";
        /// Make the bootstrap pod's Service.
        DEPLOY_BOOTSTRAP_SERVICE = "deploy-bootstrap-service";
        /// Make the bootstrap pod.
        DEPLOY_BOOTSTRAP_JOB = "deploy-bootstrap-job";
        /// Wait until the bootstrap pod is done.
        AWAIT_BOOTSTRAP_COMPLETE = "await-bootstrap-complete";
        /// Delete the bootstrap pod and its Service.
        TEARDOWN_BOOTSTRAP = "teardown-bootstrap";
    }
}

names! {
    /// Of fleets.
    fleet: &str {
        /// Make the nodes of a new chain each other's peers.
        COLLECT_AND_SET_PEERS = "collect-and-set-peers";
        /// Wait until nodes run.
        AWAIT_NODES_RUNNING = "await-nodes-running";
        /// Bring nodes' specs to the template.
        UPDATE_NODE_SPECS = "update-node-specs";
        /// Wait until nodes are as their specs say.
        AWAIT_SPEC_UPDATE = "await-spec-update";
        /// Make the nodes that take over.
        CREATE_ENTRANT_NODES = "create-entrant-nodes";
        /// Tell nodes to stop at a height.
        SUBMIT_HALT_SIGNAL = "submit-halt-signal";
        /// Wait until nodes are at a height.
        AWAIT_NODES_AT_HEIGHT = "await-nodes-at-height";
        /// Wait until nodes have caught up.
        AWAIT_NODES_CAUGHT_UP = "await-nodes-caught-up";
        /// Send clients to the nodes that take over.
        SWITCH_TRAFFIC = "switch-traffic";
        /// Delete the nodes that were taken over from.
        TEARDOWN_NODES = "teardown-nodes";
    }
}
