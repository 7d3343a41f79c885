//! Types of tasks that the operator executes. They are stored in plans, so a newer operator must understand the types of an older
//! one. The tasks of the sidecar are in [`crate::sidecar_wire::TaskType`].

names! {
    /// Tasks of nodes.
    node: &str {
        /// Creates the PersistentVolumeClaim of the data volume, or validates the imported one.
        ENSURE_DATA_PVC = "ensure-data-pvc";
        /// Validates the signing key.
        VALIDATE_SIGNING_KEY = "validate-signing-key";
        /// Validates the node key.
        VALIDATE_NODE_KEY = "validate-node-key";
        /// Validates the operator keyring.
        VALIDATE_OPERATOR_KEYRING = "validate-operator-keyring";
        /// Asks the running sidecar whether it would accept the new configuration.
        DRY_RUN_CONFIG = "dry-run-config";
        /// Applies the configuration of the proxy.
        APPLY_PROXY_CONFIG = "apply-rbac-proxy-config";
        /// Applies the Certificate of the sidecar.
        APPLY_SIDECAR_CERT = "apply-sidecar-cert";
        /// Waits for the TLS Secret of the sidecar.
        WAIT_FOR_SIDECAR_TLS_SECRET = "wait-for-sidecar-tls-secret";
        /// Deletes the Certificate of the sidecar.
        REMOVE_SIDECAR_CERT = "remove-sidecar-cert";
        /// Applies the NetworkPolicy.
        APPLY_NETWORK_POLICY = "apply-network-policy";
        /// Applies the PodDisruptionBudget of a validator.
        APPLY_DISRUPTION_BUDGET = "apply-disruption-budget";
        /// Applies the StatefulSet.
        APPLY_STATEFULSET = "apply-statefulset";
        /// Applies the Service.
        APPLY_SERVICE = "apply-service";
        /// Deletes a pod of an older revision.
        REPLACE_POD = "replace-pod";
        /// Waits for the image to run and records the state of the pod.
        OBSERVE_IMAGE = "observe-image";
        /// Records the transport of the sidecar's API.
        OBSERVE_SIDECAR_TLS = "observe-sidecar-tls";
        /// Creates the Service of the bootstrap pod.
        DEPLOY_BOOTSTRAP_SERVICE = "deploy-bootstrap-service";
        /// Creates the bootstrap Job.
        DEPLOY_BOOTSTRAP_JOB = "deploy-bootstrap-job";
        /// Waits for the bootstrap Job to complete.
        AWAIT_BOOTSTRAP_COMPLETE = "await-bootstrap-complete";
        /// Deletes the bootstrap Job and its Service.
        TEARDOWN_BOOTSTRAP = "teardown-bootstrap";
    }
}

names! {
    /// Tasks of fleets.
    fleet: &str {
        /// Configures the nodes of a new chain as peers of each other.
        COLLECT_AND_SET_PEERS = "collect-and-set-peers";
        /// Waits for nodes to run.
        AWAIT_NODES_RUNNING = "await-nodes-running";
        /// Updates the specs of nodes to the template.
        UPDATE_NODE_SPECS = "update-node-specs";
        /// Waits for nodes to match their specs.
        AWAIT_SPEC_UPDATE = "await-spec-update";
        /// Creates the new nodes of a blue-green rollout.
        CREATE_ENTRANT_NODES = "create-entrant-nodes";
        /// Makes nodes halt at a height.
        SUBMIT_HALT_SIGNAL = "submit-halt-signal";
        /// Waits for nodes to reach a height.
        AWAIT_NODES_AT_HEIGHT = "await-nodes-at-height";
        /// Waits for nodes to catch up with the chain.
        AWAIT_NODES_CAUGHT_UP = "await-nodes-caught-up";
        /// Switches traffic to the new nodes.
        SWITCH_TRAFFIC = "switch-traffic";
        /// Deletes the replaced nodes.
        TEARDOWN_NODES = "teardown-nodes";
    }
}
