//! A control plane that encrypts its Secrets by a plugin, which breaks and recovers.

use std::path::PathBuf;
use std::time::Instant;

use kube::api::{Api, DynamicObject};
use testbed::Result;
use testbed::cluster::control_plane::ControlPlane;
use testbed::demo::kms_health::{self, INTERVAL, NAME, until_degraded};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::process::Process;

use super::narrator::Narrator;

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
        kms_health::define(plane)?;
        let health = kms_health::objects(&plane.client().await?);
        kms_health::expect(&health, &["control-plane"]).await?;
        let aggregator = kms_health::aggregator(plane)?;
        let folder = plugin.socket().parent().map(PathBuf::from).unwrap_or_default();
        let reporter = kms_health::role(plane, "kms-reporter")?
            .flag("kms-sockets", format!("unix://{}", plugin.socket().display()))
            .flag("socket-dir", folder)
            .flag("node-name", "control-plane")
            .flag("interval", INTERVAL)
            .flag("read-timeout", "500ms")
            .flag("write-timeout", "400ms")
            .flag("target", "kmshealth")
            .flag("target-name", NAME)
            .flag("publish", "kmshealth")
            .start(plane.site())?;
        let watch = Self { narrator, plane, health, _processes: [aggregator, reporter] };
        until_degraded(&watch.health, "False", "AsExpected").await?;
        narrator.say("KMSPluginsDegraded is False: the plugin is well.");
        Ok(watch)
    }

    /// The plugin breaks and is mended.
    pub(super) async fn break_and_mend(&self, plugin: &KmsPlugin) -> Result<()> {
        self.narrator.say("The plugin says that it is sealed.");
        let begin = Instant::now();
        plugin.script(|script| script.healthz = b"sealed".to_vec());
        let said = until_degraded(&self.health, "True", "PluginUnhealthy").await?;
        self.narrator
            .say(format!("KMSPluginsDegraded is True after {:.1} s: {said}", begin.elapsed().as_secs_f64()));
        self.show()?;
        plugin.heal()?;
        let begin = Instant::now();
        until_degraded(&self.health, "False", "AsExpected").await?;
        self.narrator.say(format!("Mended, and False again after {:.1} s.", begin.elapsed().as_secs_f64()));
        self.show()
    }

    fn show(&self) -> Result<()> {
        let columns = "custom-columns=DEGRADED:.status.conditions[?(@.type==\"KMSPluginsDegraded\")].status,REASON:.status.conditions[?(@.type==\"KMSPluginsDegraded\")].reason";
        self.narrator.show(self.plane, &["get", "kmshealth", NAME, "--output", columns])
    }
}
