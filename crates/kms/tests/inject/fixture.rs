//! Secrets and pods, and the binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testbed::harness::binaries;

/// How a run of the binary ended.
pub struct Ended {
    pub code: Option<i32>,
    pub output: String,
    pub said: String,
}

impl Ended {
    /// What was printed, which must have succeeded.
    pub fn output(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.said);
        self.output
    }
}

/// Runs `outrigger kms-inject`.
pub fn inject(args: &[&str], input: &str) -> Ended {
    let mut child = Command::new(binaries::path("outrigger").expect("the binary is built"))
        .arg("kms-inject")
        .args(["--reporter-image", "images.example/outrigger:v1"])
        .args(args)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that refuses its arguments does not read.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), output: text(&output.stdout), said: text(&output.stderr) }
}

/// A document of JSON or YAML.
pub fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a document")
}

/// Writes a document into a folder of the test's own.
pub fn write(folder: &Path, name: &str, value: &Value) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name);
    std::fs::write(&path, value.to_string()).expect("a file");
    path
}

/// The encryption-config secret with these keys.
pub fn secret(namespace: &str, name: &str, keys: &[u64]) -> Value {
    let mut data = json!({ "encryption-config": encryption_config(keys).to_string() });
    for key in keys {
        data[format!("kms-plugin-config-{key}")] = json!(plugin_config().to_string());
        data[format!("kms-plugin-secret-vault-approle_role-id-{key}")] = json!("role");
        data[format!("kms-plugin-secret-vault-approle_secret-id-{key}")] = json!("secret");
    }
    let meta = json!({ "namespace": namespace, "name": name });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data })
}

pub fn plugin_config() -> Value {
    let vault = json!({
        "kmsPluginImage": "registry.example.com/plugin:v1",
        "vaultAddress": "https://vault.example.com:8200",
        "vaultKeyPath": "transit/keys/my-key",
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "vault-approle" } } },
    });
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "APIServer",
        "spec": { "encryption": { "type": "KMS", "kms": { "type": "Vault", "vault": vault } } },
    })
}

fn encryption_config(keys: &[u64]) -> Value {
    let kms = |key: &u64| {
        let endpoint = format!("unix:///var/run/kmsplugin/kms-{key}.sock");
        json!({ "kms": { "apiVersion": "v2", "name": format!("{key}_secrets"), "endpoint": endpoint, "timeout": "10s" } })
    };
    let mut providers: Vec<Value> = keys.iter().map(kms).collect();
    providers.push(json!({ "identity": {} }));
    let resources = json!([{ "resources": ["secrets"], "providers": providers }]);
    json!({ "kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "resources": resources })
}

/// A static pod as an operator renders it.
pub fn static_pod(namespace: &str) -> Value {
    let folder = "/etc/kubernetes/static-pod-resources";
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": "kube-apiserver" },
        "spec": {
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "containers": [{ "name": "kube-apiserver", "image": "images.example/hyperkube:v1" }],
            "volumes": [{ "name": "resource-dir", "hostPath": { "path": folder } }],
        },
    })
}

/// The names of a pod's init containers.
pub fn init_containers(spec: &Value) -> Vec<String> {
    let all = spec["initContainers"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
}
