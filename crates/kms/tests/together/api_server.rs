//! An API server that encrypts Secrets with a plugin, and a reporter next to it.

use std::path::Path;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::demo::kms_health::{
    INTERVAL, NAME, api, apply_expected_nodes, install_crd, start_aggregator, wait_for_degraded,
};
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, ControlPlane, Error, Image, Node, TestResult};

use crate::fixture::{TIMEOUT, reported_nodes};
use crate::pod::{IMAGE, static_pod};

/// Waits until the API server's own health check of its plugins passes or fails.
async fn until_kms_providers_healthy(plane: &ControlPlane, healthy: bool) -> Result<(), Error> {
    wait::until(format!("/healthz/kms-providers, healthy: {healthy}"), 2 * TIMEOUT, || async {
        match (kubectl::run(plane, &["get", "--raw", "/healthz/kms-providers"], None), healthy) {
            (Ok(_), true) | (Err(_), false) => Ok(()),
            (response, _) => Err(Error::Other(format!("{response:?}"))),
        }
    })
    .await
}

/// Creates a Secret and asserts that it is encrypted in etcd.
async fn create_encrypted_secret(plane: &ControlPlane, namespace: &str, name: &str) -> Result<(), Error> {
    let secrets: Api<Secret> = Api::namespaced(plane.client().await?, namespace);
    let secret = serde_json::from_value(json!({ "metadata": { "name": name }, "stringData": { "b": "c" } }))?;
    secrets.create(&PostParams::default(), &secret).await?;
    let stored =
        plane.etcd_value(&format!("/registry/secrets/{namespace}/{name}")).await?.unwrap_or_default();
    assert!(stored.starts_with(b"k8s:enc:kms:v2:kms-1:"), "{:?}", String::from_utf8_lossy(&stored));
    Ok(())
}

/// Breaks and repairs the plugin. A plugin that breaks twice stays degraded as flapping.
pub async fn broken_plugin_is_degraded_until_repaired(cx: Context) -> TestResult {
    let site = cx.site()?;
    let dir = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&dir)?;
    let plugin = FakeKmsPlugin::start("kms-1", &dir)?;
    let plane = ControlPlane::builder(&site).kms_provider(plugin.provider()).start().await?;
    install_crd(&plane)?;
    let api = api(&plane.client().await?);
    apply_expected_nodes(&api, &["master-0"]).await?;
    let _aggregator = start_aggregator(&plane)?;
    let _reporter = Program::new("reporter", binaries::path("outrigger")?)
        .arg("kms-reporter")
        .flag("kms-sockets", format!("unix://{}/kms-1.sock", dir.display()))
        .flag("socket-dir", &dir)
        .flag("node-name", "master-0")
        .flag("interval", INTERVAL)
        .flag("read-timeout", "500ms")
        .flag("write-timeout", "400ms")
        .flag("target", "kmshealth")
        .flag("target-name", NAME)
        .flag("publish", "kmshealth")
        .flag("kubeconfig", plane.admin().write_kubeconfig(site.dir())?)
        .start(&site)?;
    wait_for_degraded(&api, "False", "AsExpected").await?;
    let namespace = plane.namespace("together").await?;
    create_encrypted_secret(&plane, &namespace, "before").await?;

    plugin.script(|script| script.healthz = b"sealed".to_vec());
    let message = wait_for_degraded(&api, "True", "PluginUnhealthy").await?;
    assert!(
        message.contains("master-0 keyID=1 role=write Unhealthy") && message.contains("sealed"),
        "{message}"
    );
    until_kms_providers_healthy(&plane, false).await?;
    plugin.recover()?;
    wait_for_degraded(&api, "False", "AsExpected").await?;
    until_kms_providers_healthy(&plane, true).await?;

    plugin.crash();
    let message = wait_for_degraded(&api, "True", "PluginError").await?;
    assert!(message.contains("master-0 keyID=1 role=write Error"), "{message}");
    plugin.restart()?;
    // Healthy, but reported as flapping for ten minutes: a plugin that breaks and recovers faster than the operator's inertia would
    // never be degraded otherwise.
    let message = wait_for_degraded(&api, "True", "PluginFlapping").await?;
    assert!(message.contains("master-0 keyID=1 role=write Flapping"), "{message}");
    until_kms_providers_healthy(&plane, true).await?;
    // A restarted API server has no cached data keys and must decrypt with the plugin.
    let decrypted = plugin.decrypted();
    plane.restart_api_server().await?;
    let secrets: Api<Secret> = Api::namespaced(plane.client().await?, &namespace);
    assert!(secrets.get("before").await?.data.is_some(), "a restarted plugin keeps its keys");
    assert!(plugin.decrypted() > decrypted, "the API server must call the plugin");
    create_encrypted_secret(&plane, &namespace, "after").await?;
    Ok(())
}

/// Returns a container with a second kube-apiserver on the same etcd and the host network, and its volumes.
fn api_server_container(plane: &ControlPlane) -> (Value, Vec<Value>) {
    let mut command = plane.api_server_command();
    command.extend(
        ["--bind-address=0.0.0.0", "--endpoint-reconciler-type=none", "--audit-log-path=-"].map(String::from),
    );
    let programs = plane.kubernetes().program("kube-apiserver");
    let dirs = [plane.site().dir(), programs.parent().unwrap_or(Path::new("/"))];
    let name = |index: usize| format!("dir-{index}");
    let mounts = dirs
        .iter()
        .enumerate()
        .map(|(index, dir)| json!({ "name": name(index), "mountPath": dir, "readOnly": true }));
    let volumes = dirs
        .iter()
        .enumerate()
        .map(|(index, dir)| json!({ "name": name(index), "hostPath": { "path": dir } }));
    let container = json!({
        "name": "kube-apiserver", "image": IMAGE, "imagePullPolicy": "Never", "command": command,
        "securityContext": { "runAsUser": 0 }, "volumeMounts": mounts.collect::<Vec<_>>(),
    });
    (container, volumes.collect())
}

/// T-S6 with a real API server, whose container starts after that of a reporter without socket, credentials and reachable API server.
/// The reporter picks each of them up when it appears.
pub async fn api_server_starts_without_working_reporter(cx: Context) -> TestResult {
    let site = cx.site()?;
    let (dir, files) = (site.dir().join("kmsplugin"), site.dir().join("files"));
    std::fs::create_dir_all(&dir)?;
    std::fs::create_dir_all(&files)?;
    let plugin = FakeKmsPlugin::start("kms-1", &dir)?;
    let plane = ControlPlane::builder(&site).kms_provider(plugin.provider()).start().await?;
    install_crd(&plane)?;
    let client = plane.client().await?;
    let api = api(&client);
    apply_expected_nodes(&api, &["node-1"]).await?;
    let (container, volumes) = api_server_container(&plane);
    let image = Image::outrigger()?;
    let node = Node::builder(&plane)
        .image(&image)
        .static_pod(static_pod(&files, container, &volumes))
        .start()
        .await?;
    let address = format!("--server=https://{}:6443", node.address());
    wait::until("the API server in the pod", 2 * TIMEOUT, || async {
        let ready = [&address, "--tls-server-name=localhost", "get", "--raw", "/readyz"];
        kubectl::run(&plane, &ready, None)
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(client, "kube-system");
    let name = format!("kube-apiserver-{}", node.name());
    let reporter = wait::until("the reporter to run", TIMEOUT, || async {
        let status = pods.get(&name).await?.status.unwrap_or_default();
        let all: Vec<ContainerStatus> = status.init_container_statuses.unwrap_or_default();
        let running = all.into_iter().find(|one| one.state.as_ref().is_some_and(|is| is.running.is_some()));
        running.ok_or_else(|| Error::Other("not running".into()))
    })
    .await?;
    assert_eq!(reporter.restart_count, 0, "{reporter:?}");
    assert_eq!(reported_nodes(&api.get(NAME).await?), Vec::<String>::new(), "no report without credentials");

    // First the kubeconfig appears, then the socket. A report follows each.
    let kubeconfig = plane.admin().at("https://127.0.0.1:6443").kubeconfig();
    std::fs::write(files.join("kubeconfig.new"), kubeconfig)?;
    std::fs::rename(files.join("kubeconfig.new"), files.join("kubeconfig"))?;
    let _aggregator = start_aggregator(&plane)?;
    let message = wait_for_degraded(&api, "True", "PluginError").await?;
    assert!(
        message.contains("node-1 keyID=1 role=write Error") && message.contains("SocketMissing"),
        "{message}"
    );
    let _socket = FakeKmsPlugin::start("kms-1", &files)?;
    wait_for_degraded(&api, "False", "AsExpected").await?;
    Ok(())
}
