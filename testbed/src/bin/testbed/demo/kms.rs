//! Health of the KMS plugin of the control plane, which fails and recovers.

use std::path::PathBuf;
use std::time::Instant;

use kube::api::{Api, DynamicObject};
use testbed::Result;
use testbed::cluster::control_plane::ControlPlane;
use testbed::demo::kms_health::{self, INTERVAL, NAME, wait_for_degraded};
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::process::Process;

use super::narrator::Narrator;

/// Reporter and aggregator of KMS health; stopped on drop.
pub(super) struct KmsDemo<'a> {
    narrator: &'a Narrator,
    plane: &'a ControlPlane,
    health: Api<DynamicObject>,
    _processes: [Process; 2],
}

impl<'a> KmsDemo<'a> {
    pub(super) async fn start(
        narrator: &'a Narrator,
        plane: &'a ControlPlane,
        plugin: &FakeKmsPlugin,
    ) -> Result<Self> {
        narrator.section(
            "KMS plugin health",
            "A KMS plugin encrypts the Secrets of this cluster. A reporter next to the API server probes the plugin like the API \
             server does; the aggregator reports the health of all plugins in one condition.",
        );
        narrator.event("kubectl apply --server-side -f deploy/crds/outrigger.dev_kmshealths.yaml");
        kms_health::install_crd(plane)?;
        let health = kms_health::api(&plane.client().await?);
        kms_health::apply_expected_nodes(&health, &["control-plane"]).await?;
        let aggregator = kms_health::start_aggregator(plane)?;
        let socket_dir = plugin.socket().parent().map(PathBuf::from).unwrap_or_default();
        let reporter = kms_health::subcommand(plane, "kms-reporter")?
            .flag("kms-sockets", format!("unix://{}", plugin.socket().display()))
            .flag("socket-dir", socket_dir)
            .flag("node-name", "control-plane")
            .flag("interval", INTERVAL)
            .flag("read-timeout", "500ms")
            .flag("write-timeout", "400ms")
            .flag("target", "kmshealth")
            .flag("target-name", NAME)
            .flag("publish", "kmshealth")
            .start(plane.site())?;
        let demo = Self { narrator, plane, health, _processes: [aggregator, reporter] };
        wait_for_degraded(&demo.health, "False", "AsExpected").await?;
        narrator.event("KMSPluginsDegraded is False: the plugin is healthy");
        Ok(demo)
    }

    /// Makes the plugin fail and recover.
    pub(super) async fn fail_and_recover(&self, plugin: &FakeKmsPlugin) -> Result<()> {
        self.narrator.event("the plugin reports \"sealed\"");
        let begin = Instant::now();
        plugin.script(|script| script.healthz = b"sealed".to_vec());
        let message = wait_for_degraded(&self.health, "True", "PluginUnhealthy").await?;
        self.narrator.event(format!(
            "KMSPluginsDegraded is True after {:.1} s: {message}",
            begin.elapsed().as_secs_f64()
        ));
        self.show()?;
        plugin.recover()?;
        let begin = Instant::now();
        wait_for_degraded(&self.health, "False", "AsExpected").await?;
        self.narrator.event(format!(
            "KMSPluginsDegraded is False again, {:.1} s after the plugin recovered",
            begin.elapsed().as_secs_f64()
        ));
        self.show()
    }

    fn show(&self) -> Result<()> {
        let columns = "custom-columns=DEGRADED:.status.conditions[?(@.type==\"KMSPluginsDegraded\")].status,REASON:.status.conditions[?(@.type==\"KMSPluginsDegraded\")].reason";
        self.narrator.show(self.plane, &["get", "kmshealth", NAME, "--output", columns])
    }
}
