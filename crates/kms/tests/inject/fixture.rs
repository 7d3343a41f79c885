//! Test data, and the `kms-inject` binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testbed::harness::binaries;

use crate::encryption_config::encryption_config;

/// Result of a run of the binary.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Returns standard output of a run that must have succeeded.
    pub fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
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
    // A process that rejects its arguments does not read standard input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Parses JSON or YAML.
pub fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a document")
}

/// Writes a document to a file.
pub fn write(dir: &Path, name: &str, value: &Value) -> PathBuf {
    std::fs::create_dir_all(dir).expect("a directory");
    let path = dir.join(name);
    std::fs::write(&path, value.to_string()).expect("a file");
    path
}

/// Returns the encryption-config Secret with these keys.
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

/// Returns a static pod as an operator renders it.
pub fn static_pod(namespace: &str) -> Value {
    let dir = "/etc/kubernetes/static-pod-resources";
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": "kube-apiserver" },
        "spec": {
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "containers": [{ "name": "kube-apiserver", "image": "images.example/hyperkube:v1" }],
            "volumes": [{ "name": "resource-dir", "hostPath": { "path": dir } }],
        },
    })
}

/// Returns the names of a pod's init containers.
pub fn init_containers(spec: &Value) -> Vec<String> {
    let all = spec["initContainers"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
}
