//! A control plane that encrypts its Secrets by a plugin, which breaks and recovers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use testbed::control_plane::ControlPlane;
use testbed::kms_plugin::KmsPlugin;
use testbed::process::{Process, Program};
use testbed::{Error, Result, binaries, kubectl, wait};

use super::narrator::Narrator;

/// Time between two reports.
const INTERVAL: &str = "1s";

/// How long it may take until something is known; it takes a few seconds.
const SOON: Duration = Duration::from_secs(120);

/// Where reports are written, and where conditions are read.
const HEALTH: &str = "cluster";

/// A reporter beside the API server, and the aggregator that turns reports into conditions. They end when dropped.
pub(super) struct Watch<'a> {
    narrator: &'a Narrator,
    plane: &'a ControlPlane,
    health: Api<DynamicObject>,
    _processes: [Process; 2],
}

impl<'a> Watch<'a> {
    pub(super) async fn start(
        narrator: &'a Narrator,
        plane: &'a ControlPlane,
        plugin: &KmsPlugin,
    ) -> Result<Self> {
        narrator.chapter(
            "Keys of the control plane",
            "Every Secret of this cluster was encrypted by a KMS plugin. A reporter beside the API server asks the plugin as the API \
             server does; the aggregator says in one condition whether somebody must act.",
        );
        narrator.say("kubectl apply --server-side -f deploy/crds/outrigger.dev_kmshealths.yaml");
        let kind = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds/outrigger.dev_kmshealths.yaml");
        kubectl::run(plane, &["apply", "--server-side", "--filename", kind], None)?;
        let known =
            ["wait", "--for=condition=Established", "--timeout=60s", "crd", "kmshealths.outrigger.dev"];
        kubectl::run(plane, &known, None)?;
        let expected = json!({
            "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": HEALTH },
            "spec": { "expectedNodes": ["control-plane"], "expectedKeys": [{ "keyID": "1", "role": "Write" }] },
        });
        kubectl::apply(plane, &expected.to_string())?;
        let gvk = GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth");
        let health =
            Api::all_with(plane.client().await?, &ApiResource::from_gvk_with_plural(&gvk, "kmshealths"));
        let aggregator = role("kms-aggregator", plane)?
            .flag("targets", "kmshealth")
            .flag("interval", INTERVAL)
            .flag("leader-elect", "false")
            .flag("metrics-bind-address", "0")
            .start(plane.site())?;
        let folder = plugin.socket().parent().map(PathBuf::from).unwrap_or_default();
        let reporter = role("kms-reporter", plane)?
            .flag("kms-sockets", format!("unix://{}", plugin.socket().display()))
            .flag("socket-dir", folder)
            .flag("node-name", "control-plane")
            .flag("interval", INTERVAL)
            .flag("read-timeout", "500ms")
            .flag("write-timeout", "400ms")
            .flag("target", "kmshealth")
            .flag("target-name", HEALTH)
            .flag("publish", "kmshealth")
            .start(plane.site())?;
        let watch = Self { narrator, plane, health, _processes: [aggregator, reporter] };
        watch.until("False", "AsExpected").await?;
        narrator.say("KMSPluginsDegraded is False: the plugin is well.");
        Ok(watch)
    }

    /// The plugin breaks and is mended.
    pub(super) async fn break_and_mend(&self, plugin: &KmsPlugin) -> Result<()> {
        self.narrator.say("The plugin says that it is sealed.");
        let begin = Instant::now();
        plugin.script(|script| script.healthz = b"sealed".to_vec());
        let said = self.until("True", "PluginUnhealthy").await?;
        self.narrator
            .say(format!("KMSPluginsDegraded is True after {:.1} s: {said}", begin.elapsed().as_secs_f64()));
        self.show()?;
        plugin.heal()?;
        let begin = Instant::now();
        self.until("False", "AsExpected").await?;
        self.narrator.say(format!("Mended, and False again after {:.1} s.", begin.elapsed().as_secs_f64()));
        self.show()
    }

    fn show(&self) -> Result<()> {
        let columns = "custom-columns=DEGRADED:.status.conditions[?(@.type==\"KMSPluginsDegraded\")].status,REASON:.status.conditions[?(@.type==\"KMSPluginsDegraded\")].reason";
        self.narrator.show(self.plane, &["get", "kmshealth", HEALTH, "--output", columns])
    }

    async fn until(&self, status: &str, reason: &str) -> Result<String> {
        wait::until(format!("KMSPluginsDegraded={status} for {reason}"), SOON, || async {
            let object = self.health.get(HEALTH).await?;
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            match conditions.iter().find(|one| one["type"] == "KMSPluginsDegraded") {
                Some(one) if one["status"] == status && one["reason"] == reason => {
                    Ok(one["message"].as_str().unwrap_or_default().to_owned())
                }
                other => Err(Error::Refused(format!("it is {other:?}"))),
            }
        })
        .await
    }
}

/// A role of our binary, with a way to the API server.
fn role(name: &str, plane: &ControlPlane) -> Result<Program> {
    let folder = plane.site().dir().join(name);
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Io { what: format!("making {}", folder.display()), source })?;
    let kubeconfig = plane.user(name, Some("system:masters"))?.write_kubeconfig(&folder)?;
    Ok(Program::new(name, binaries::path("outrigger")?).arg(name).flag("kubeconfig", kubeconfig))
}
