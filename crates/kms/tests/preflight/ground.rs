//! A cluster that asks for a check, and the controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use plan::kms::config_hash;
use plan::kms::plugin::{Need, Source, of_kms};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::cluster::control_plane::User;
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane};

/// Whatever went wrong; tests only show it.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long what is wanted may take.
pub const SOON: Duration = Duration::from_secs(60);

/// Where the API servers are.
pub const OPERAND: &str = "operand";

/// The pod of a check where there is no node to name.
const POD: &str = "kms-preflight";

/// Where credentials are.
pub const CONFIG: &str = "openshift-config";

pub struct Ground {
    // Ends before the API server does.
    controller: Option<Process>,
    pub plane: ControlPlane,
    pub client: Client,
    pub kind: &'static str,
    /// The namespace of the API servers.
    pub operand: &'static str,
    pub folder: PathBuf,
    logs: PathBuf,
}

impl Ground {
    /// A cluster with a configuration that nobody has asked to check yet.
    pub async fn new(cx: &Context, kind: &'static str) -> Result<Self, Error> {
        Self::on(ControlPlane::on(&cx.site()?).start().await?, cx, kind).await
    }

    /// The same on a control plane.
    pub async fn on(plane: ControlPlane, cx: &Context, kind: &'static str) -> Result<Self, Error> {
        openshift::install(&plane, FeatureSet::TechPreview)?;
        openshift::install_config(&plane, FeatureSet::TechPreview)?;
        let client = plane.client().await?;
        let folder = plane.site().dir().join("sockets");
        std::fs::create_dir_all(&folder)?;
        std::fs::create_dir_all(cx.logs())?;
        let logs = cx.logs().to_owned();
        let mut ground = Self { controller: None, plane, client, kind, operand: OPERAND, folder, logs };
        ground.namespace(CONFIG).await?;
        ground.turn_to(kind, OPERAND).await?;
        ground.credentials("secret-456").await?;
        ground.configure(kms("https://vault.example.com:8200")).await?;
        Ok(ground)
    }

    async fn namespace(&self, name: &str) -> Result<(), Error> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.all("", "v1", "Namespace").create(&PostParams::default(), &typed(namespace)?).await?;
        Ok(())
    }

    /// From here on it is about another kind, whose API servers are elsewhere.
    pub async fn turn_to(&mut self, kind: &'static str, operand: &'static str) -> Result<(), Error> {
        (self.kind, self.operand) = (kind, operand);
        openshift::create(&self.client, kind).await?;
        self.namespace(operand).await
    }

    /// Nodes that are ready and carry the label of a control plane.
    pub async fn nodes(&self, names: &[&str]) -> Result<(), Error> {
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

    pub async fn credentials(&self, secret_id: &str) -> Result<(), Error> {
        let data = json!({ "role-id": "role-123", "secret-id": secret_id });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "vault-approle" }, "stringData": data });
        let api: Api<Secret> = Api::namespaced(self.client.clone(), CONFIG);
        api.patch("vault-approle", &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await?;
        Ok(())
    }

    pub async fn remove_credentials(&self) -> Result<(), Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), CONFIG);
        api.delete("vault-approle", &Default::default()).await?;
        Ok(())
    }

    /// What encrypts from now on.
    pub async fn configure(&self, encryption: Value) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "APIServer",
            "metadata": { "name": "cluster" }, "spec": { "encryption": encryption },
        });
        let api = self.all("config.openshift.io", "v1", "APIServer");
        api.patch("cluster", &PatchParams::apply("test").force(), &Patch::Apply(&body)).await?;
        Ok(())
    }

    /// The hash of the configuration, as whoever asks for a check computes it.
    pub async fn hash(&self) -> Result<String, Error> {
        let config = self.all("config.openshift.io", "v1", "APIServer").get("cluster").await?;
        let (kind, config) = of_kms(&config.data["spec"]["encryption"]["kms"], "test")?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), CONFIG);
        let config_maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), CONFIG);
        let mut values: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
        for Need { source, name, .. } in kind.needs(&config)? {
            let found = match source {
                Source::Secret => {
                    let data = secrets.get(&name).await?.data.unwrap_or_default();
                    data.into_iter().map(|(key, value)| (key, value.0)).collect()
                }
                Source::ConfigMap => {
                    let data = config_maps.get(&name).await?.data.unwrap_or_default();
                    data.into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
                }
            };
            values.insert(name, found);
        }
        Ok(config_hash::of(kind, &config, |need| values.get(&need.name).cloned())?)
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

    /// Asks for a check of the configuration as it is now, as a key controller does.
    pub async fn ask(&self) -> Result<String, Error> {
        let hash = self.hash().await?;
        self.observe(json!(hash)).await?;
        Ok(hash)
    }

    pub async fn observe(&self, hash: Value) -> Result<(), Error> {
        // The published schema takes no empty object.
        let encryption =
            if hash.is_null() { Value::Null } else { json!({ "preflight": { "observedConfigHash": hash } }) };
        let patch = json!({ "status": self.status(encryption) });
        self.operators().patch_status("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Asks for another try.
    pub async fn retry(&self, value: &str) -> Result<(), Error> {
        let patch = json!({ "metadata": { "annotations": { "outrigger.dev/kms-preflight-retry": value } } });
        self.operators().patch("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn operator(&self) -> Result<DynamicObject, Error> {
        Ok(self.operators().get("cluster").await?)
    }

    /// The result that is stored.
    pub async fn result(&self) -> Result<Value, Error> {
        let status = self.operator().await?.data["status"].clone();
        let place = if self.kind == "Authentication" { &status["oauthAPIServer"] } else { &status };
        Ok(place["encryptionStatus"]["preflight"]["result"].clone())
    }

    /// Status, reason and message of one of the controller's conditions.
    pub async fn condition(&self, which: &str) -> Result<(String, String, String), Error> {
        let operator = self.operator().await?;
        let all = operator.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let type_ = format!("EncryptionKMSPreflightController{which}");
        let found = all.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Ok((text("status"), text("reason"), text("message")))
    }

    /// Waits until a condition is so for this reason; its message.
    pub async fn told(&self, which: &str, status: &str, reason: &str) -> Result<String, Error> {
        self.told_within(which, status, reason, SOON).await
    }

    /// The same within another time.
    pub async fn told_within(
        &self,
        which: &str,
        status: &str,
        reason: &str,
        within: Duration,
    ) -> Result<String, Error> {
        let told = wait::until(format!("{which} {status} {reason}"), within, || async {
            let (is, why, message) = self.condition(which).await.map_err(|error| error.to_string())?;
            if is == status && why == reason { Ok(message) } else { Err(format!("{is} {why}: {message}")) }
        });
        Ok(told.await?)
    }

    /// Waits until a failed check is told with these words; the message.
    pub async fn told_of(&self, words: &str) -> Result<String, Error> {
        let told = wait::until(format!("a message with {words:?}"), SOON, || async {
            let (_, _, message) = self.condition("Degraded").await.map_err(|error| error.to_string())?;
            if message.contains(words) { Ok(message) } else { Err(message) }
        });
        Ok(told.await?)
    }

    /// Starts the controller, alone. It looks by itself so rarely that everything it sees in time it was woken for.
    pub fn start(&mut self) -> Result<(), Error> {
        self.start_with(|program| program.flag("resync", "1h"))
    }

    /// The same with other settings.
    pub fn start_with(&mut self, change: impl FnOnce(Program) -> Program) -> Result<(), Error> {
        let alone = |program: Program| change(program.flag("leader-elect", "false"));
        self.controller = Some(self.controller_as("controller", self.plane.admin(), alone)?);
        Ok(())
    }

    /// A controller as somebody.
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

    /// Waits for the pod of a check; another one than `before`.
    pub async fn pod(&self, before: Option<&Pod>) -> Result<Pod, Error> {
        self.pod_named(POD, before).await
    }

    /// Waits for a pod of a check; another one than `before`.
    pub async fn pod_named(&self, name: &str, before: Option<&Pod>) -> Result<Pod, Error> {
        let pod = wait::until(format!("the pod {name}"), SOON, || async {
            match self.pods().get_opt(name).await {
                Ok(Some(pod)) if before.is_none_or(|before| before.uid() != pod.uid()) => Ok(pod),
                Ok(Some(_)) => Err("the one before is still there".to_owned()),
                Ok(None) => Err("there is none".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        Ok(pod.await?)
    }

    /// Waits until nothing of a check is left but its rights.
    pub async fn gone(&self) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.operand);
        let gone = wait::until("the check to be removed", SOON, || async {
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
        Ok(gone.await?)
    }

    /// Plays the kubelet: the pod becomes this.
    pub async fn becomes(&self, status: Value) -> Result<(), Error> {
        let patch = json!({ "status": status });
        self.pods().patch_status(POD, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Runs the checker as its pod would, with the rights of its service account and no others.
    pub async fn check(&self, hash: &str, sockets: &[u64]) -> Result<Output, Error> {
        self.check_in(POD, &self.folder, hash, sockets).await
    }

    /// The same in one of several pods, with plugins of its own.
    pub async fn check_in(
        &self,
        pod: &str,
        plugins: &Path,
        hash: &str,
        sockets: &[u64],
    ) -> Result<Output, Error> {
        let account = format!("system:serviceaccount:{}:kms-preflight", self.operand);
        let kubeconfig = self.plane.user(&account, None)?.write_kubeconfig(&self.logs)?;
        let folder = plugins.display().to_string();
        let all: Vec<String> = sockets.iter().map(|id| format!("unix://{folder}/kms-{id}.sock")).collect();
        let mut command = std::process::Command::new(binaries::path("outrigger")?);
        command
            .args(["kms-preflight", "--kms-call-timeout=2s"])
            .arg(format!("--pod-name={pod}"))
            .arg(format!("--pod-namespace={}", self.operand))
            .arg(format!("--config-hash={hash}"))
            .arg(format!("--socket-dir={folder}"))
            .arg(format!("--kms-sockets={}", all.join(",")))
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }
}

/// The image of Vault's plugin.
pub fn plugin_image() -> String {
    format!("registry.example.com/plugin@sha256:{}", "0123456789abcdef".repeat(4))
}

/// A configuration of Vault at an address.
pub fn kms(address: &str) -> Value {
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
