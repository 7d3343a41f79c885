//! Names in pods with KMS plugins, and of the preflight check.

names! {
    /// Names in pods of API servers.
    pod: &str {
        /// Container of the reporter.
        REPORTER = "kms-health-reporter";
        /// Containers of Vault plugins; the number of the key follows.
        VAULT_PLUGIN_PREFIX = "vault-kms-plugin-";
        /// Volume of the plugins' sockets.
        SOCKETS = "kms-plugin-socket";
        /// Mount path of the sockets.
        SOCKET_FOLDER = "/var/run/kmsplugin";
        /// Volume of the plugins' files, in Deployments.
        DATA = "kms-plugins-data";
        /// Mount path of the plugins' files.
        DATA_FOLDER = "/var/run/secrets/kms-plugin";
        /// Volume of the files of a static pod, which exists already.
        RESOURCES = "resource-dir";
        /// Mount path of the files of a static pod.
        RESOURCE_FOLDER = "/etc/kubernetes/static-pod-resources";
        /// Kubeconfig of a reporter in a static pod.
        STATIC_KUBECONFIG = "/etc/kubernetes/static-pod-resources/configmaps/kube-apiserver-cert-syncer-kubeconfig/kubeconfig";
    }
}

names! {
    /// Keys of the Secret with an API server's encryption configuration.
    encryption_config: &str {
        /// The encryption configuration.
        CONFIG = "encryption-config";
        /// Configuration of a plugin; the number of its key follows.
        PLUGIN_CONFIG_PREFIX = "kms-plugin-config-";
        /// Value copied from a Secret; `<secret name>_<key>-<number of the plugin's key>` follows.
        SECRET_PREFIX = "kms-plugin-secret-";
        /// Value copied from a ConfigMap; `<ConfigMap name>_<key>-<number of the plugin's key>` follows.
        CONFIG_MAP_PREFIX = "kms-plugin-configmap-";
    }
}

names! {
    /// Names of the preflight check, which validates an encryption configuration before it is used.
    preflight: &str {
        /// Name of its pod, ServiceAccount, Role and RoleBinding. With pods on several nodes, the pod's name is followed by the
        /// node's.
        NAME = "kms-preflight";
        /// Container that runs the check.
        CONTAINER = "kms-preflight-check";
        /// Secret with the configuration to check.
        SECRET = "kms-preflight-encryption-config";
        /// Label of the pod that NetworkPolicies select.
        APP_LABEL = "app";
        /// Value of [`APP_LABEL`].
        APP = "openshift-kms-preflight";
        /// Annotation of the pod: hash of the configuration.
        HASH_ANNOTATION = "encryption.apiserver.operator.openshift.io/kms-preflight-config-hash";
        /// Annotation of the pod: keyed, collision-resistant hash of the configuration.
        FINGERPRINT_ANNOTATION = "outrigger.dev/kms-preflight-fingerprint";
        /// Key in the Secret: the secret key of the fingerprint.
        FINGERPRINT_KEY = "outrigger-fingerprint-key";
        /// Annotation of the pod: number of the attempt with this configuration.
        ATTEMPT_ANNOTATION = "outrigger.dev/kms-preflight-attempt";
        /// Annotation of the pod: number of pods that check this configuration, each on its own node.
        PODS_ANNOTATION = "outrigger.dev/kms-preflight-pods";
        /// Annotation of the operator resource: a new value requests a retry.
        RETRY_ANNOTATION = "outrigger.dev/kms-preflight-retry";
        /// Condition of the pod: result of the check.
        RESULT = "KMSPreflightResult";
        /// Condition of the pod: hash of the configuration that was checked.
        CONFIG_HASH = "KMSPreflightConfigHash";
        /// Condition of the pod: ID of the key in the KMS.
        REMOTE_KEY_ID = "KMSPreflightRemoteKeyID";
        /// Condition of the pod: all steps at all sockets, as JSON.
        STEPS = "outrigger.dev/KMSPreflightSteps";
        /// Condition of the operator resource.
        DEGRADED = "EncryptionKMSPreflightControllerDegraded";
        /// Condition of the operator resource.
        PROGRESSING = "EncryptionKMSPreflightControllerProgressing";
        /// Field manager of the preflight controller.
        MANAGER = "outrigger-kms-preflight";
    }
}
