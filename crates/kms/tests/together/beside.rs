//! One API server that encrypts Secrets by a plugin, with a reporter beside it.

use std::path::Path;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::demo::kms_health::{INTERVAL, NAME, aggregator, define, expect, objects, until_degraded};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, ControlPlane, Error, Image, Node, TestResult};

use crate::ground::{SOON, reported};
use crate::pod::{IMAGE, static_pod};

/// Waits until the API server itself says of its plugins what is expected: nobody here has written that.
async fn until_the_server_says(plane: &ControlPlane, well: bool) -> Result<(), Error> {
    wait::until(format!("/healthz/kms-providers, well: {well}"), 2 * SOON, || async {
        match (kubectl::run(plane, &["get", "--raw", "/healthz/kms-providers"], None), well) {
            (Ok(_), true) | (Err(_), false) => Ok(()),
            (said, _) => Err(Error::Refused(format!("{said:?}"))),
        }
    })
    .await
}

/// A Secret, and how it lies in etcd.
async fn encrypted(plane: &ControlPlane, namespace: &str, name: &str) -> Result<(), Error> {
    let secrets: Api<Secret> = Api::namespaced(plane.client().await?, namespace);
    let secret = serde_json::from_value(json!({ "metadata": { "name": name }, "stringData": { "b": "c" } }))?;
    secrets.create(&PostParams::default(), &secret).await?;
    let stored = plane.stored(&format!("/registry/secrets/{namespace}/{name}")).await?.unwrap_or_default();
    assert!(stored.starts_with(b"k8s:enc:kms:v2:kms-1:"), "{:?}", String::from_utf8_lossy(&stored));
    Ok(())
}

/// Must show of issue 6: break the plugin, mend it; rule 5 of 2.4 holds what breaks again and again.
pub async fn a_plugin_that_breaks_is_degraded_until_it_is_mended(cx: Context) -> TestResult {
    let site = cx.site()?;
    let folder = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&folder)?;
    let plugin = KmsPlugin::start("kms-1", &folder)?;
    let plane = ControlPlane::on(&site).encrypted_by(plugin.provider()).start().await?;
    define(&plane)?;
    let api = objects(&plane.client().await?);
    expect(&api, &["master-0"]).await?;
    let _aggregator = aggregator(&plane)?;
    let _reporter = Program::new("reporter", binaries::path("outrigger")?)
        .arg("kms-reporter")
        .flag("kms-sockets", format!("unix://{}/kms-1.sock", folder.display()))
        .flag("socket-dir", &folder)
        .flag("node-name", "master-0")
        .flag("interval", INTERVAL)
        .flag("read-timeout", "500ms")
        .flag("write-timeout", "400ms")
        .flag("target", "kmshealth")
        .flag("target-name", NAME)
        .flag("publish", "kmshealth")
        .flag("kubeconfig", plane.admin().write_kubeconfig(site.dir())?)
        .start(&site)?;
    until_degraded(&api, "False", "AsExpected").await?;
    let namespace = plane.namespace("together").await?;
    encrypted(&plane, &namespace, "before").await?;

    plugin.script(|script| script.healthz = b"sealed".to_vec());
    let said = until_degraded(&api, "True", "PluginUnhealthy").await?;
    assert!(said.contains("master-0 keyID=1 role=write Unhealthy") && said.contains("sealed"), "{said}");
    until_the_server_says(&plane, false).await?;
    plugin.heal()?;
    until_degraded(&api, "False", "AsExpected").await?;
    until_the_server_says(&plane, true).await?;

    plugin.crash();
    let said = until_degraded(&api, "True", "PluginError").await?;
    assert!(said.contains("master-0 keyID=1 role=write Error"), "{said}");
    plugin.restart()?;
    // Well again, and told all the same for ten minutes: it has broken twice, and an operator that waits before it believes
    // anything bad would else never hear of it.
    let said = until_degraded(&api, "True", "PluginFlapping").await?;
    assert!(said.contains("master-0 keyID=1 role=write Flapping"), "{said}");
    until_the_server_says(&plane, true).await?;
    // What was written before can be read by a server that knows nothing but the plugin.
    let decrypted = plugin.decrypted();
    plane.restart_api_server().await?;
    let secrets: Api<Secret> = Api::namespaced(plane.client().await?, &namespace);
    assert!(secrets.get("before").await?.data.is_some(), "a plugin that was restarted has its keys");
    assert!(plugin.decrypted() > decrypted, "the server had to ask the plugin");
    encrypted(&plane, &namespace, "after").await?;
    Ok(())
}

/// A container with a kube-apiserver of its own at the same storage, in the network of its node.
fn server(plane: &ControlPlane) -> (Value, Vec<Value>) {
    let mut command = plane.api_server_command();
    command.extend(
        ["--bind-address=0.0.0.0", "--endpoint-reconciler-type=none", "--audit-log-path=-"].map(String::from),
    );
    let programs = plane.kubernetes().program("kube-apiserver");
    let folders = [plane.site().dir(), programs.parent().unwrap_or(Path::new("/"))];
    let name = |place: usize| format!("folder-{place}");
    let mounts = folders
        .iter()
        .enumerate()
        .map(|(place, folder)| json!({ "name": name(place), "mountPath": folder, "readOnly": true }));
    let volumes = folders
        .iter()
        .enumerate()
        .map(|(place, folder)| json!({ "name": name(place), "hostPath": { "path": folder } }));
    let container = json!({
        "name": "kube-apiserver", "image": IMAGE, "imagePullPolicy": "Never", "command": command,
        "securityContext": { "runAsUser": 0 }, "volumeMounts": mounts.collect::<Vec<_>>(),
    });
    (container, volumes.collect())
}

/// T-S6 with a real API server: its container is behind that of a reporter that has neither a socket nor credentials, nor an API
/// server to reach. What the reporter lacked it finds when it comes.
pub async fn the_api_server_starts_whatever_its_reporter_lacks(cx: Context) -> TestResult {
    let site = cx.site()?;
    let (folder, files) = (site.dir().join("kmsplugin"), site.dir().join("files"));
    std::fs::create_dir_all(&folder)?;
    std::fs::create_dir_all(&files)?;
    let plugin = KmsPlugin::start("kms-1", &folder)?;
    let plane = ControlPlane::on(&site).encrypted_by(plugin.provider()).start().await?;
    define(&plane)?;
    let client = plane.client().await?;
    let api = objects(&client);
    expect(&api, &["node-1"]).await?;
    let (container, volumes) = server(&plane);
    let image = Image::outrigger()?;
    let node =
        Node::on(&plane).image(&image).static_pod(static_pod(&files, container, &volumes)).start().await?;
    let address = format!("--server=https://{}:6443", node.address());
    wait::until("the API server in the pod", 2 * SOON, || async {
        let ready = [&address, "--tls-server-name=localhost", "get", "--raw", "/readyz"];
        kubectl::run(&plane, &ready, None)
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(client, "kube-system");
    let name = format!("kube-apiserver-{}", node.name());
    let reporter = wait::until("the reporter's state", SOON, || async {
        let status = pods.get(&name).await?.status.unwrap_or_default();
        let all: Vec<ContainerStatus> = status.init_container_statuses.unwrap_or_default();
        let running = all.into_iter().find(|one| one.state.as_ref().is_some_and(|is| is.running.is_some()));
        running.ok_or_else(|| Error::Refused("it does not run".into()))
    })
    .await?;
    assert_eq!(reporter.restart_count, 0, "{reporter:?}");
    assert_eq!(reported(&api.get(NAME).await?), Vec::<String>::new(), "it could not report");

    // The way to the server beside it comes, and then the socket: a report follows each.
    let kubeconfig = plane.admin().at("https://127.0.0.1:6443").kubeconfig();
    std::fs::write(files.join("kubeconfig.new"), kubeconfig)?;
    std::fs::rename(files.join("kubeconfig.new"), files.join("kubeconfig"))?;
    let _aggregator = aggregator(&plane)?;
    let said = until_degraded(&api, "True", "PluginError").await?;
    assert!(said.contains("node-1 keyID=1 role=write Error") && said.contains("SocketMissing"), "{said}");
    let _found = KmsPlugin::start("kms-1", &files)?;
    until_degraded(&api, "False", "AsExpected").await?;
    Ok(())
}
