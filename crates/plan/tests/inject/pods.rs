//! Test pods and Secret content.

use k8s_openapi::ByteString;
use plan::kms::inject::{InjectOptions, Reporter, SocketConsumer};
use plan::kms::plugin::PluginFiles;
use plan::kms::providers;
use plan::kms::secret_layout::EncryptionSecret;
use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub enum Form {
    Static,
    Deployment,
}

impl Form {
    pub const ALL: [Self; 2] = [Self::Static, Self::Deployment];

    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Deployment => "deployment",
        }
    }
}

/// Pod before injection.
pub fn pod(form: Form) -> Value {
    match form {
        Form::Static => json!({
            "hostNetwork": true,
            "containers": [
                {
                    "name": "kube-apiserver",
                    "image": "images.example/hyperkube:v1",
                    "volumeMounts": [{ "name": "resource-dir", "mountPath": "/etc/kubernetes/static-pod-resources" }],
                },
                { "name": "kube-apiserver-cert-syncer", "image": "images.example/operator:v1" },
            ],
            "volumes": [{ "name": "resource-dir", "hostPath": { "path": "/etc/kubernetes/static-pod-resources/kube-apiserver-pod-7" } }],
        }),
        Form::Deployment => json!({
            "containers": [
                { "name": "openshift-apiserver", "image": "images.example/openshift-apiserver:v1", "args": ["--v=2"] },
                { "name": "check-endpoints", "image": "images.example/operator:v1" },
            ],
        }),
    }
}

pub fn options(form: Form) -> InjectOptions {
    let (container, files) = match form {
        Form::Static => ("kube-apiserver", PluginFiles::Resources("encryption-config".into())),
        Form::Deployment => ("openshift-apiserver", PluginFiles::Secret("encryption-config-7".into())),
    };
    let reporter = Reporter {
        image: "images.example/outrigger:v1".into(),
        command: vec!["outrigger".into(), "kms-reporter".into()],
        args: vec![],
    };
    let container = container.into();
    InjectOptions { container, files, consumer: SocketConsumer::Reporter(reporter) }
}

/// Secret content with these keys. Each key has its own Vault.
pub fn content(keys: &[u64]) -> EncryptionSecret {
    let mut data: std::collections::BTreeMap<String, ByteString> = keys
        .iter()
        .flat_map(|key| {
            [
                (format!("kms-plugin-config-{key}"), config(*key).to_string()),
                (format!("kms-plugin-secret-approle-{key}_role-id-{key}"), format!("role-{key}")),
                (format!("kms-plugin-secret-approle-{key}_secret-id-{key}"), format!("secret-{key}")),
                (format!("kms-plugin-configmap-ca_ca-bundle.crt-{key}"), "pem".to_owned()),
            ]
        })
        .map(|(name, value)| (name, ByteString(value.into_bytes())))
        .collect();
    data.insert("encryption-config".into(), ByteString(encryption_config(keys).to_string().into_bytes()));
    EncryptionSecret::read(&data).unwrap()
}

fn config(key: u64) -> Value {
    let vault = json!({
        "kmsPluginImage": format!("registry.example.com/plugin@sha256:{}", "0123456789abcdef".repeat(4)),
        "vaultAddress": format!("https://vault-{key}.example.com:8200"),
        "vaultNamespace": "admin",
        "vaultKeyPath": "transit/keys/my-key",
        "tls": { "caBundle": { "name": "ca" }, "serverName": "vault.internal" },
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": format!("approle-{key}") } } },
    });
    let kms = json!({ "type": "Vault", "vault": vault });
    json!({ "apiVersion": "config.openshift.io/v1", "kind": "APIServer", "spec": { "encryption": { "type": "KMS", "kms": kms } } })
}

/// EncryptionConfiguration with two resources, so that each plugin has two providers.
fn encryption_config(keys: &[u64]) -> Value {
    let resource = |name: &str| {
        let kms = |key: &u64| json!({ "kms": { "apiVersion": "v2", "name": format!("{key}_{name}"), "endpoint": providers::endpoint(*key), "timeout": "10s" } });
        let mut all: Vec<Value> = keys.iter().rev().map(kms).collect();
        all.push(json!({ "identity": {} }));
        json!({ "resources": [name], "providers": all })
    };
    json!({ "kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "resources": [resource("secrets"), resource("configmaps")] })
}
