//! A cluster that asks for a check, and the controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use plan::kms::config_hash;
use plan::kms::plugin::{Need, Source, of_kms};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::openshift::{self, FeatureSet};
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane, binaries, wait};

/// Whatever went wrong; tests only show it.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long what is wanted may take.
pub const SOON: Duration = Duration::from_secs(30);

/// Where the API servers are.
pub const OPERAND: &str = "operand";

/// Where credentials are.
const CONFIG: &str = "openshift-config";

pub struct Ground {
    // Ends before the API server does.
    controller: Option<Process>,
    pub plane: ControlPlane,
    pub client: Client,
    pub kind: &'static str,
    pub folder: PathBuf,
    logs: PathBuf,
}

impl Ground {
    /// A cluster with a configuration that nobody has asked to check yet.
    pub async fn new(cx: &Context, kind: &'static str) -> Result<Self, Error> {
        let plane = ControlPlane::on(&cx.site()?).start().await?;
        openshift::install(&plane, FeatureSet::TechPreview)?;
        openshift::install_config(&plane, FeatureSet::TechPreview)?;
        let client = plane.client().await?;
        openshift::create(&client, kind).await?;
        let folder = plane.site().dir().join("sockets");
        std::fs::create_dir_all(&folder)?;
        std::fs::create_dir_all(cx.logs())?;
        let ground = Self { controller: None, plane, client, kind, folder, logs: cx.logs().to_owned() };
        for name in [OPERAND, CONFIG] {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            ground.all("", "v1", "Namespace").create(&PostParams::default(), &typed(namespace)?).await?;
        }
        ground.credentials("secret-456").await?;
        ground.configure(kms("https://vault.example.com:8200")).await?;
        Ok(ground)
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
        let told = wait::until(format!("{which} {status} {reason}"), SOON, || async {
            let (is, why, message) = self.condition(which).await.map_err(|error| error.to_string())?;
            if is == status && why == reason { Ok(message) } else { Err(format!("{is} {why}: {message}")) }
        });
        Ok(told.await?)
    }

    /// Starts the controller.
    pub fn start(&mut self) -> Result<(), Error> {
        let kubeconfig = self.plane.admin().write_kubeconfig(&self.logs)?;
        let program = Program::new("controller", binaries::path("outrigger")?)
            .arg("kms-preflight-controller")
            .flag("target", self.kind)
            .flag("namespace", OPERAND)
            .flag("image", "outrigger.dev/outrigger:dev")
            .flag("kubeconfig", kubeconfig)
            .flag("resync", "500ms")
            .flag("leader-elect", "false");
        self.controller = Some(program.start(self.plane.site())?);
        Ok(())
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), OPERAND)
    }

    /// Waits for the pod of a check; another one than `before`.
    pub async fn pod(&self, before: Option<&Pod>) -> Result<Pod, Error> {
        let pod = wait::until("the pod of the check", SOON, || async {
            match self.pods().get_opt("kms-preflight").await {
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
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), OPERAND);
        let gone = wait::until("the check to be removed", SOON, || async {
            let pod = self.pods().get_opt("kms-preflight").await.map_err(|error| error.to_string())?;
            let secret = secrets
                .get_opt("kms-preflight-encryption-config")
                .await
                .map_err(|error| error.to_string())?;
            match (pod, secret) {
                (None, None) => Ok(()),
                (pod, secret) => Err(format!("pod {}, secret {}", pod.is_some(), secret.is_some())),
            }
        });
        Ok(gone.await?)
    }

    /// Plays the kubelet: the pod becomes this.
    pub async fn becomes(&self, status: Value) -> Result<(), Error> {
        let patch = json!({ "status": status });
        self.pods().patch_status("kms-preflight", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Runs the checker as its pod would, with the rights of its service account and no others.
    pub async fn check(&self, hash: &str, sockets: &[u64]) -> Result<Output, Error> {
        let account = format!("system:serviceaccount:{OPERAND}:kms-preflight");
        let kubeconfig = self.plane.user(&account, None)?.write_kubeconfig(&self.logs)?;
        check(&self.folder, &kubeconfig, hash, sockets).await
    }
}

async fn check(folder: &Path, kubeconfig: &Path, hash: &str, sockets: &[u64]) -> Result<Output, Error> {
    let folder = folder.display().to_string();
    let all: Vec<String> = sockets.iter().map(|id| format!("unix://{folder}/kms-{id}.sock")).collect();
    let mut command = std::process::Command::new(binaries::path("outrigger")?);
    command
        .args(["kms-preflight", "--kms-call-timeout=2s", "--pod-name=kms-preflight"])
        .arg(format!("--pod-namespace={OPERAND}"))
        .arg(format!("--config-hash={hash}"))
        .arg(format!("--socket-dir={folder}"))
        .arg(format!("--kms-sockets={}", all.join(",")))
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

/// A configuration of Vault at an address.
pub fn kms(address: &str) -> Value {
    let vault = json!({
        "kmsPluginImage": format!("registry.example.com/plugin@sha256:{}", "0123456789abcdef".repeat(4)),
        "vaultAddress": address,
        "vaultKeyPath": "transit/keys/my-key",
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "vault-approle" } } },
    });
    json!({ "type": "KMS", "kms": { "type": "Vault", "vault": vault } })
}

fn typed<K: DeserializeOwned>(value: Value) -> Result<K, Error> {
    Ok(serde_json::from_value(value)?)
}
