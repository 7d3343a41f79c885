//! Names in pods that have KMS plugins, and around the check of a configuration before it is used.

names! {
    /// In pods of API servers.
    pod: &str {
        /// The reporter's container.
        REPORTER = "kms-health-reporter";
        /// Containers of Vault's plugins; the number of the key follows.
        VAULT_PLUGIN_PREFIX = "vault-kms-plugin-";
        /// The volume of the plugins' sockets.
        SOCKETS = "kms-plugin-socket";
        /// Where it is mounted.
        SOCKET_FOLDER = "/var/run/kmsplugin";
        /// The volume of the plugins' files, in Deployments.
        DATA = "kms-plugins-data";
        /// Where it is mounted.
        DATA_FOLDER = "/var/run/secrets/kms-plugin";
        /// The volume of a static pod's files, which is there before us.
        RESOURCES = "resource-dir";
        /// Where it is mounted.
        RESOURCE_FOLDER = "/etc/kubernetes/static-pod-resources";
        /// What a reporter in a static pod reaches its API server by.
        STATIC_KUBECONFIG = "/etc/kubernetes/static-pod-resources/configmaps/kube-apiserver-cert-syncer-kubeconfig/kubeconfig";
    }
}

names! {
    /// Keys of the Secret that holds an API server's encryption configuration.
    encryption_config: &str {
        /// The configuration itself.
        CONFIG = "encryption-config";
        /// The configuration of a plugin; the number of its key follows.
        PLUGIN_CONFIG_PREFIX = "kms-plugin-config-";
        /// A value of a Secret; its name, `_`, the key in it, `-` and the number of the plugin's key follow.
        SECRET_PREFIX = "kms-plugin-secret-";
        /// A value of a ConfigMap; the same follows.
        CONFIG_MAP_PREFIX = "kms-plugin-configmap-";
    }
}

names! {
    /// Of the check of a configuration before it is used.
    preflight: &str {
        /// Its pod, service account, role and role binding. Where it has a pod on each of several nodes, the node's name follows
        /// that of the pod.
        NAME = "kms-preflight";
        /// The container that checks.
        CONTAINER = "kms-preflight-check";
        /// The Secret of the configuration that is checked.
        SECRET = "kms-preflight-encryption-config";
        /// The label that network policies know its pod by.
        APP_LABEL = "app";
        /// Its value.
        APP = "openshift-kms-preflight";
        /// On the pod: which configuration it checks.
        HASH_ANNOTATION = "encryption.apiserver.operator.openshift.io/kms-preflight-config-hash";
        /// On the pod: the same, keyed and long enough not to be met by chance.
        FINGERPRINT_ANNOTATION = "outrigger.dev/kms-preflight-fingerprint";
        /// In the Secret: the key of that fingerprint.
        FINGERPRINT_KEY = "outrigger-fingerprint-key";
        /// On the pod: how often this configuration has been tried.
        ATTEMPT_ANNOTATION = "outrigger.dev/kms-preflight-attempt";
        /// On the pod: how many pods check this configuration, each on a node of its own.
        PODS_ANNOTATION = "outrigger.dev/kms-preflight-pods";
        /// On the operator's resource: a new value asks for another try.
        RETRY_ANNOTATION = "outrigger.dev/kms-preflight-retry";
        /// Condition of the pod: how the check ended.
        RESULT = "KMSPreflightResult";
        /// Condition of the pod: which configuration was checked.
        CONFIG_HASH = "KMSPreflightConfigHash";
        /// Condition of the pod: the id of the key in the KMS.
        REMOTE_KEY_ID = "KMSPreflightRemoteKeyID";
        /// Condition of the pod: every step at every socket, as JSON.
        STEPS = "outrigger.dev/KMSPreflightSteps";
        /// Condition of the operator's resource.
        DEGRADED = "EncryptionKMSPreflightControllerDegraded";
        /// Condition of the operator's resource.
        PROGRESSING = "EncryptionKMSPreflightControllerProgressing";
        /// Who writes all of it.
        MANAGER = "outrigger-kms-preflight";
    }
}
