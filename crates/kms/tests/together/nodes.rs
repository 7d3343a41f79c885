//! Reporters in static pods of real nodes, of which one goes and one is replaced.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use testbed::kms_plugin::KmsPlugin;
use testbed::{Context, ControlPlane, Error, Image, Node, TestResult, wait};

use crate::ground::{INTERVAL, NAME, SOON, aggregator, define, expect, health, reported, until_degraded};

const IMAGE: &str = "outrigger.dev/outrigger:dev";

/// A static pod as an API server's: the plugin's folder and the credentials are those of its machine.
fn static_pod(folder: &Path) -> Value {
    let name =
        json!([{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }]);
    let files = folder.display().to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "kube-apiserver-like", "namespace": "kube-system" },
        "spec": {
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 1,
            "initContainers": [{
                "name": "kms-health-reporter", "image": IMAGE, "imagePullPolicy": "Never", "restartPolicy": "Always",
                "env": name,
                "args": [
                    "kms-reporter", "--kms-sockets=unix:///files/kms-1.sock", "--socket-dir=/files",
                    "--node-name=$(NODE_NAME)", "--kubeconfig=/files/kubeconfig", "--target=kmshealth",
                    format!("--target-name={NAME}"), "--publish=kmshealth", format!("--interval={INTERVAL}"),
                    "--read-timeout=500ms", "--write-timeout=400ms",
                ],
                "securityContext": { "runAsUser": 0 },
                "volumeMounts": [{ "name": "files", "mountPath": "/files", "readOnly": true }],
            }],
            "containers": [{
                "name": "kube-apiserver", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["testbed-pod", "serve", "--port=8080"],
            }],
            "volumes": [{ "name": "files", "hostPath": { "path": files } }],
        },
    })
}

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

/// A machine that is taken away is also taken out of the cluster.
async fn forget(client: &kube::Client, name: &str) -> Result<(), Error> {
    let gvk = GroupVersionKind::gvk("", "v1", "Node");
    let nodes: Api<DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "nodes"));
    nodes.delete(name, &kube::api::DeleteParams::default()).await?;
    Ok(())
}

pub async fn nodes_that_go_are_forgotten_and_those_that_stay_never_are(cx: Context) -> TestResult {
    let site = cx.site()?;
    let folder = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&folder)?;
    let _plugin = KmsPlugin::start("kms-1", &folder)?;
    let plane = ControlPlane::on(&site).start().await?;
    std::fs::write(folder.join("kubeconfig"), plane.admin().kubeconfig())?;
    define(&plane)?;
    let client = plane.client().await?;
    let api = health(&client);
    let image = Image::outrigger()?;
    let start = || Node::on(&plane).image(&image).static_pod(static_pod(&folder)).start();
    let (stays, goes, replaced) = (start().await?, start().await?, start().await?);
    let names = |nodes: &[&Node]| nodes.iter().map(|node| node.name().to_owned()).collect::<Vec<_>>();
    let three = names(&[&stays, &goes, &replaced]);
    expect(&api, &three.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let _aggregator = aggregator(&plane)?;
    until_degraded(&api, "False", "AsExpected").await?;
    let (lost, watching) = losses(api.clone());

    // One goes for good, and one is replaced by another.
    let gone = names(&[&goes, &replaced]);
    drop((goes, replaced));
    for name in &gone {
        forget(&client, name).await?;
    }
    let comes = start().await?;
    expect(&api, &[stays.name(), comes.name()]).await?;
    let mut remain = names(&[&stays, &comes]);
    remain.sort();
    wait::until(format!("reports of {remain:?} and of nobody else"), 2 * SOON, || async {
        let now = reported(&api.get(NAME).await?);
        if now == remain { Ok(()) } else { Err(Error::Refused(format!("there are those of {now:?}"))) }
    })
    .await?;
    until_degraded(&api, "False", "AsExpected").await?;
    watching.abort();
    let lost = lost.lock().unwrap().clone();
    assert_eq!(lost, gone.into_iter().collect::<BTreeSet<_>>(), "of live reporters nothing was removed");
    Ok(())
}
