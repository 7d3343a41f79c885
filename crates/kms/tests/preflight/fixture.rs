//! The test fixture: a cluster with a KMS configuration, and the controller as a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use plan::kms::config_hash;
use plan::kms::plugin::{ObjectKind, RequiredObject, parse_kms_spec};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::cluster::control_plane::User;
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane};

/// Any error of a test.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Timeout for expected changes.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Namespace of the API servers.
pub const OPERAND_NAMESPACE: &str = "operand";

/// Name of the check pod if it runs on any node.
const POD: &str = "kms-preflight";

/// Namespace of credentials.
pub const CONFIG_NAMESPACE: &str = "openshift-config";

pub struct Fixture {
    // Dropped before the API server.
    controller: Option<Process>,
    pub plane: ControlPlane,
    pub client: Client,
    pub kind: &'static str,
    /// The namespace of the API servers.
    pub operand: &'static str,
    /// Directory of plugin sockets.
    pub sockets: PathBuf,
    logs: PathBuf,
}

impl Fixture {
    /// Starts a control plane with a configuration for which no check is requested yet.
    pub async fn new(cx: &Context, kind: &'static str) -> Result<Self, Error> {
        Self::on(ControlPlane::builder(&cx.site()?).start().await?, cx, kind).await
    }

    /// Sets up the fixture on a control plane.
    pub async fn on(plane: ControlPlane, cx: &Context, kind: &'static str) -> Result<Self, Error> {
        openshift::install(&plane, FeatureSet::TechPreview)?;
        openshift::install_config(&plane, FeatureSet::TechPreview)?;
        let client = plane.client().await?;
        let sockets = plane.site().dir().join("sockets");
        std::fs::create_dir_all(&sockets)?;
        std::fs::create_dir_all(cx.logs())?;
        let logs = cx.logs().to_owned();
        let mut fixture =
            Self { controller: None, plane, client, kind, operand: OPERAND_NAMESPACE, sockets, logs };
        fixture.create_namespace(CONFIG_NAMESPACE).await?;
        fixture.switch_to(kind, OPERAND_NAMESPACE).await?;
        fixture.set_credentials("secret-456").await?;
        fixture.configure(vault_config("https://vault.example.com:8200")).await?;
        Ok(fixture)
    }

    async fn create_namespace(&self, name: &str) -> Result<(), Error> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.all("", "v1", "Namespace").create(&PostParams::default(), &typed(namespace)?).await?;
        Ok(())
    }

    /// Switches to another kind, with API servers in another namespace.
    pub async fn switch_to(&mut self, kind: &'static str, operand: &'static str) -> Result<(), Error> {
        (self.kind, self.operand) = (kind, operand);
        openshift::create_singleton(&self.client, kind).await?;
        self.create_namespace(operand).await
    }

    /// Creates ready control plane nodes.
    pub async fn create_nodes(&self, names: &[&str]) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        for name in names {
            let labels = json!({ "node-role.kubernetes.io/master": "" });
            let node = json!({ "metadata": { "name": name, "labels": labels } });
            api.create(&PostParams::default(), &typed(node)?).await?;
            let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await?;
        }
        Ok(())
    }

    pub fn all(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &resource)
    }

    pub async fn set_credentials(&self, secret_id: &str) -> Result<(), Error> {
        let data = json!({ "role-id": "role-123", "secret-id": secret_id });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "vault-approle" }, "stringData": data });
        let api: Api<Secret> = Api::namespaced(self.client.clone(), CONFIG_NAMESPACE);
        api.patch("vault-approle", &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await?;
        Ok(())
    }

    pub async fn remove_credentials(&self) -> Result<(), Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), CONFIG_NAMESPACE);
        api.delete("vault-approle", &Default::default()).await?;
        Ok(())
    }

    /// Sets the encryption configuration.
    pub async fn configure(&self, encryption: Value) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "APIServer",
            "metadata": { "name": "cluster" }, "spec": { "encryption": encryption },
        });
        let api = self.all("config.openshift.io", "v1", "APIServer");
        api.patch("cluster", &PatchParams::apply("test").force(), &Patch::Apply(&body)).await?;
        Ok(())
    }

    /// Computes the hash of the configuration, as the requester of a check does.
    pub async fn config_hash(&self) -> Result<String, Error> {
        let config = self.all("config.openshift.io", "v1", "APIServer").get("cluster").await?;
        let (kind, config) = parse_kms_spec(&config.data["spec"]["encryption"]["kms"], "test")?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), CONFIG_NAMESPACE);
        let config_maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), CONFIG_NAMESPACE);
        let mut values: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
        for RequiredObject { source, name, .. } in kind.required_objects(&config)? {
            let data = match source {
                ObjectKind::Secret => {
                    let data = secrets.get(&name).await?.data.unwrap_or_default();
                    data.into_iter().map(|(key, value)| (key, value.0)).collect()
                }
                ObjectKind::ConfigMap => {
                    let data = config_maps.get(&name).await?.data.unwrap_or_default();
                    data.into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
                }
            };
            values.insert(name, data);
        }
        Ok(config_hash::compute(kind, &config, |need| values.get(&need.name).cloned())?)
    }

    fn operators(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &openshift::resource(self.kind))
    }

    fn status(&self, encryption: Value) -> Value {
        if self.kind == "Authentication" {
            return json!({ "oauthAPIServer": { "encryptionStatus": encryption } });
        }
        json!({ "encryptionStatus": encryption })
    }

    /// Requests a check of the current configuration, as OpenShift's key controller does.
    pub async fn request_check(&self) -> Result<String, Error> {
        let hash = self.config_hash().await?;
        self.set_observed_hash(json!(hash)).await?;
        Ok(hash)
    }

    pub async fn set_observed_hash(&self, hash: Value) -> Result<(), Error> {
        // The published schema does not allow an empty object.
        let encryption =
            if hash.is_null() { Value::Null } else { json!({ "preflight": { "observedConfigHash": hash } }) };
        let patch = json!({ "status": self.status(encryption) });
        self.operators().patch_status("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Requests a retry.
    pub async fn retry(&self, value: &str) -> Result<(), Error> {
        let patch = json!({ "metadata": { "annotations": { "outrigger.dev/kms-preflight-retry": value } } });
        self.operators().patch("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn operator(&self) -> Result<DynamicObject, Error> {
        Ok(self.operators().get("cluster").await?)
    }

    /// Returns the stored result.
    pub async fn result(&self) -> Result<Value, Error> {
        let status = self.operator().await?.data["status"].clone();
        let holder = if self.kind == "Authentication" { &status["oauthAPIServer"] } else { &status };
        Ok(holder["encryptionStatus"]["preflight"]["result"].clone())
    }

    /// Returns status, reason and message of one of the controller's conditions.
    pub async fn condition(&self, which: &str) -> Result<(String, String, String), Error> {
        let operator = self.operator().await?;
        let all = operator.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let type_ = format!("EncryptionKMSPreflightController{which}");
        let found = all.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Ok((text("status"), text("reason"), text("message")))
    }

    /// Waits until a condition has a status and reason, and returns its message.
    pub async fn until_condition(&self, which: &str, status: &str, reason: &str) -> Result<String, Error> {
        self.until_condition_within(which, status, reason, TIMEOUT).await
    }

    /// Like `until_condition`, with another timeout.
    pub async fn until_condition_within(
        &self,
        which: &str,
        status: &str,
        reason: &str,
        timeout: Duration,
    ) -> Result<String, Error> {
        let message = wait::until(format!("{which} {status} {reason}"), timeout, || async {
            let (is_status, is_reason, message) =
                self.condition(which).await.map_err(|error| error.to_string())?;
            if is_status == status && is_reason == reason {
                Ok(message)
            } else {
                Err(format!("{is_status} {is_reason}: {message}"))
            }
        });
        Ok(message.await?)
    }

    /// Waits until the Degraded message contains a text, and returns the message.
    pub async fn until_degraded_message(&self, text: &str) -> Result<String, Error> {
        let message = wait::until(format!("a message with {text:?}"), TIMEOUT, || async {
            let (_, _, message) = self.condition("Degraded").await.map_err(|error| error.to_string())?;
            if message.contains(text) { Ok(message) } else { Err(message) }
        });
        Ok(message.await?)
    }

    /// Starts the controller without leader election. The resync is so long that every reconcile in time was triggered by a watch.
    pub fn start(&mut self) -> Result<(), Error> {
        self.start_with(|program| program.flag("resync", "1h"))
    }

    /// Starts the controller with other settings.
    pub fn start_with(&mut self, change: impl FnOnce(Program) -> Program) -> Result<(), Error> {
        let without_election = |program: Program| change(program.flag("leader-elect", "false"));
        self.controller = Some(self.controller_as("controller", self.plane.admin(), without_election)?);
        Ok(())
    }

    /// Starts a controller as a user.
    pub fn controller_as(
        &self,
        name: &str,
        user: &User,
        change: impl FnOnce(Program) -> Program,
    ) -> Result<Process, Error> {
        let program = Program::new(name, binaries::path("outrigger")?)
            .arg("kms-preflight-controller")
            .flag("target", self.kind)
            .flag("namespace", self.operand)
            .flag("image", "outrigger.dev/outrigger:dev")
            .flag("pod-name", name)
            .flag("kubeconfig", user.write_kubeconfig(&self.logs)?);
        Ok(change(program).start(self.plane.site())?)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.operand)
    }

    /// Waits for the check pod, other than `before`.
    pub async fn wait_for_pod(&self, before: Option<&Pod>) -> Result<Pod, Error> {
        self.wait_for_pod_named(POD, before).await
    }

    /// Waits for a check pod by name, other than `before`.
    pub async fn wait_for_pod_named(&self, name: &str, before: Option<&Pod>) -> Result<Pod, Error> {
        let pod = wait::until(format!("the pod {name}"), TIMEOUT, || async {
            match self.pods().get_opt(name).await {
                Ok(Some(pod)) if before.is_none_or(|before| before.uid() != pod.uid()) => Ok(pod),
                Ok(Some(_)) => Err("the previous pod still exists".to_owned()),
                Ok(None) => Err("no pod".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        Ok(pod.await?)
    }

    /// Waits until all objects of the check but its RBAC are deleted.
    pub async fn until_cleaned_up(&self) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.operand);
        let cleaned_up = wait::until("the check to be cleaned up", TIMEOUT, || async {
            let everything = ListParams::default();
            let pods = self.pods().list(&everything).await.map_err(|error| error.to_string())?.items.len();
            let secret = secrets
                .get_opt("kms-preflight-encryption-config")
                .await
                .map_err(|error| error.to_string())?;
            match (pods, secret) {
                (0, None) => Ok(()),
                (pods, secret) => Err(format!("{pods} pods, secret: {}", secret.is_some())),
            }
        });
        Ok(cleaned_up.await?)
    }

    /// Patches the status of the check pod, in place of a kubelet.
    pub async fn set_pod_status(&self, status: Value) -> Result<(), Error> {
        let patch = json!({ "status": status });
        self.pods().patch_status(POD, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Runs the checker as its pod would, with the permissions of its service account.
    pub async fn run_checker(&self, hash: &str, keys: &[u64]) -> Result<Output, Error> {
        self.run_checker_in(POD, &self.sockets, hash, keys).await
    }

    /// Runs the checker for one of several pods, with its own plugins.
    pub async fn run_checker_in(
        &self,
        pod: &str,
        socket_dir: &Path,
        hash: &str,
        keys: &[u64],
    ) -> Result<Output, Error> {
        let account = format!("system:serviceaccount:{}:kms-preflight", self.operand);
        let kubeconfig = self.plane.user(&account, None)?.write_kubeconfig(&self.logs)?;
        let dir = socket_dir.display().to_string();
        let sockets: Vec<String> = keys.iter().map(|key| format!("unix://{dir}/kms-{key}.sock")).collect();
        let mut command = std::process::Command::new(binaries::path("outrigger")?);
        command
            .args(["kms-preflight", "--kms-call-timeout=2s"])
            .arg(format!("--pod-name={pod}"))
            .arg(format!("--pod-namespace={}", self.operand))
            .arg(format!("--config-hash={hash}"))
            .arg(format!("--socket-dir={dir}"))
            .arg(format!("--kms-sockets={}", sockets.join(",")))
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }
}

/// Returns the image of Vault's plugin.
pub fn plugin_image() -> String {
    format!("registry.example.com/plugin@sha256:{}", "0123456789abcdef".repeat(4))
}

/// Returns the encryption configuration of a Vault.
pub fn vault_config(address: &str) -> Value {
    let vault = json!({
        "kmsPluginImage": plugin_image(),
        "vaultAddress": address,
        "vaultKeyPath": "transit/keys/my-key",
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "vault-approle" } } },
    });
    json!({ "type": "KMS", "kms": { "type": "Vault", "vault": vault } })
}

fn typed<K: DeserializeOwned>(value: Value) -> Result<K, Error> {
    Ok(serde_json::from_value(value)?)
}
