//! Reporters in static pods of real nodes, of which one goes and one is replaced.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node as Machine;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use testbed::demo::kms_health::{NAME, aggregator, define, expect, objects, until_degraded};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, Image, Node, TestResult};

use crate::ground::{SOON, reported};
use crate::pod::{IMAGE, static_pod};

/// Watches the object, and notes every node whose reports were there and are gone.
fn losses(api: Api<DynamicObject>) -> (Arc<Mutex<BTreeSet<String>>>, tokio::task::JoinHandle<()>) {
    let lost: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let noted = lost.clone();
    let watching = tokio::spawn(async move {
        let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
        let mut before = BTreeSet::new();
        while let Some(event) = events.next().await {
            let (Ok(Event::Apply(object)) | Ok(Event::InitApply(object))) = event else { continue };
            let now: BTreeSet<String> = reported(&object).into_iter().collect();
            noted.lock().unwrap().extend(before.difference(&now).cloned());
            before = now;
        }
    });
    (lost, watching)
}

/// T-G9 and T-G11 on real machines: one goes for good, and one is replaced by another of its name, which takes over its entry.
pub async fn nodes_that_go_are_forgotten_and_those_that_stay_never_are(cx: Context) -> TestResult {
    let site = cx.site()?;
    let folder = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&folder)?;
    let _plugin = KmsPlugin::start("kms-1", &folder)?;
    let plane = ControlPlane::on(&site).start().await?;
    std::fs::write(folder.join("kubeconfig"), plane.admin().kubeconfig())?;
    define(&plane)?;
    let client = plane.client().await?;
    let (api, machines) = (objects(&client), Api::<Machine>::all(client));
    let image = Image::outrigger()?;
    let server = json!({
        "name": "kube-apiserver", "image": IMAGE, "imagePullPolicy": "Never",
        "command": ["testbed-pod", "serve", "--port=8080"],
    });
    let pod = static_pod(&folder, server, &[]);
    let start = || Node::on(&plane).image(&image).static_pod(pod.clone()).start();
    let (stays, replaced, goes) = tokio::try_join!(start(), start(), start())?;
    let names = [&stays, &replaced, &goes].map(|node| node.name().to_owned());
    expect(&api, &names.each_ref().map(String::as_str)).await?;
    let _aggregator = aggregator(&plane)?;
    until_degraded(&api, "False", "AsExpected").await?;
    let (lost, watching) = losses(api.clone());

    // A machine that is taken away is also taken out of the cluster.
    let before = machines.get(replaced.name()).await?.uid();
    let [remains, again, gone] = names;
    drop((goes, replaced));
    for name in [&again, &gone] {
        machines.delete(name, &DeleteParams::default()).await?;
    }
    expect(&api, &[&remains, &again]).await?;
    // Names are given anew from the lowest that is free.
    let comes = start().await?;
    assert_eq!(comes.name(), again);
    assert_ne!(machines.get(&again).await?.uid(), before, "another machine");
    let two = [remains, again];
    wait::until(format!("reports of {two:?} and of nobody else"), 2 * SOON, || async {
        let now = reported(&api.get(NAME).await?);
        if now == two { Ok(()) } else { Err(Error::Refused(format!("there are those of {now:?}"))) }
    })
    .await?;
    until_degraded(&api, "False", "AsExpected").await?;
    watching.abort();
    let lost = lost.lock().unwrap().clone();
    assert_eq!(lost, BTreeSet::from([gone]), "of live reporters nothing was removed");
    Ok(())
}
