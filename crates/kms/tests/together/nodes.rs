//! Reporters in static pods of real nodes, one of which is removed and one replaced.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node as Machine;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use testbed::demo::kms_health::{
    NAME, api, apply_expected_nodes, install_crd, start_aggregator, wait_for_degraded,
};
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, Image, Node, TestResult};

use crate::fixture::{TIMEOUT, reported_nodes};
use crate::pod::{IMAGE, static_pod};

/// Watches the object and records every node whose reports disappear.
fn record_losses(api: Api<DynamicObject>) -> (Arc<Mutex<BTreeSet<String>>>, tokio::task::JoinHandle<()>) {
    let lost: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let recorded = lost.clone();
    let watching = tokio::spawn(async move {
        let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
        let mut before = BTreeSet::new();
        while let Some(event) = events.next().await {
            let (Ok(Event::Apply(object)) | Ok(Event::InitApply(object))) = event else { continue };
            let now: BTreeSet<String> = reported_nodes(&object).into_iter().collect();
            recorded.lock().unwrap().extend(before.difference(&now).cloned());
            before = now;
        }
    });
    (lost, watching)
}

/// T-G9 and T-G11 with real nodes: one is removed, and one is replaced by a node of the same name, which takes over its report.
pub async fn only_reports_of_removed_nodes_are_removed(cx: Context) -> TestResult {
    let site = cx.site()?;
    let dir = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&dir)?;
    let _plugin = FakeKmsPlugin::start("kms-1", &dir)?;
    let plane = ControlPlane::builder(&site).start().await?;
    std::fs::write(dir.join("kubeconfig"), plane.admin().kubeconfig())?;
    install_crd(&plane)?;
    let client = plane.client().await?;
    let (api, machines) = (api(&client), Api::<Machine>::all(client));
    let image = Image::outrigger()?;
    let server = json!({
        "name": "kube-apiserver", "image": IMAGE, "imagePullPolicy": "Never",
        "command": ["testbed-pod", "serve", "--port=8080"],
    });
    let pod = static_pod(&dir, server, &[]);
    let start = || Node::builder(&plane).image(&image).static_pod(pod.clone()).start();
    let (kept, replaced, removed) = tokio::try_join!(start(), start(), start())?;
    let names = [&kept, &replaced, &removed].map(|node| node.name().to_owned());
    apply_expected_nodes(&api, &names.each_ref().map(String::as_str)).await?;
    let _aggregator = start_aggregator(&plane)?;
    wait_for_degraded(&api, "False", "AsExpected").await?;
    let (lost, watching) = record_losses(api.clone());

    // Nodes are stopped and deleted from the cluster.
    let before = machines.get(replaced.name()).await?.uid();
    let [kept_name, replaced_name, removed_name] = names;
    drop((removed, replaced));
    for name in [&replaced_name, &removed_name] {
        machines.delete(name, &DeleteParams::default()).await?;
    }
    apply_expected_nodes(&api, &[&kept_name, &replaced_name]).await?;
    // A new node gets the lowest free name.
    let replacement = start().await?;
    assert_eq!(replacement.name(), replaced_name);
    assert_ne!(machines.get(&replaced_name).await?.uid(), before, "a new Node object");
    let expected = [kept_name, replaced_name];
    wait::until(format!("reports of {expected:?} only"), 2 * TIMEOUT, || async {
        let now = reported_nodes(&api.get(NAME).await?);
        if now == expected { Ok(()) } else { Err(Error::Other(format!("reports of {now:?}"))) }
    })
    .await?;
    wait_for_degraded(&api, "False", "AsExpected").await?;
    watching.abort();
    let lost = lost.lock().unwrap().clone();
    assert_eq!(lost, BTreeSet::from([removed_name]), "reports of live reporters were removed");
    Ok(())
}
