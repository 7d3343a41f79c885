//! One API server that encrypts Secrets by a plugin, with a reporter beside it.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use testbed::kms_plugin::KmsPlugin;
use testbed::process::Program;
use testbed::{Context, ControlPlane, Error, TestResult, binaries, wait};

use crate::ground::{INTERVAL, NAME, SOON, aggregator, define, expect, health, kubectl, until_degraded};

/// Waits until the API server itself says of its plugins what is expected: nobody here has written that.
async fn until_the_server_says(plane: &ControlPlane, well: bool) -> Result<(), Error> {
    wait::until(format!("/healthz/kms-providers, well: {well}"), 2 * SOON, || async {
        match (kubectl(plane, &["get", "--raw", "/healthz/kms-providers"]), well) {
            (Ok(_), true) | (Err(_), false) => Ok(()),
            (said, _) => Err(Error::Refused(format!("{said:?}"))),
        }
    })
    .await
}

pub async fn a_plugin_that_breaks_is_degraded_until_it_is_mended(cx: Context) -> TestResult {
    let site = cx.site()?;
    let folder = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&folder)?;
    let plugin = KmsPlugin::start("kms-1", &folder)?;
    let plane = ControlPlane::on(&site).encrypted_by(plugin.provider()).start().await?;
    define(&plane)?;
    let client = plane.client().await?;
    let api = health(&client);
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
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let secret = serde_json::from_value(json!({ "metadata": { "name": "a" }, "stringData": { "b": "c" } }))?;
    secrets.create(&PostParams::default(), &secret).await?;
    let stored = plane.stored(&format!("/registry/secrets/{namespace}/a")).await?.unwrap_or_default();
    assert!(stored.starts_with(b"k8s:enc:kms:v2:kms-1:"), "{:?}", String::from_utf8_lossy(&stored));

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
    until_degraded(&api, "False", "AsExpected").await?;
    let read = secrets.get("a").await?;
    assert!(read.data.is_some(), "a plugin that was restarted has its keys");
    Ok(())
}
