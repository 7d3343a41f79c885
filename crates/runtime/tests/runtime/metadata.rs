//! Watches of metadata.

use std::sync::mpsc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::metadata::PartialObjectMeta;
use kube::runtime::watcher;
use runtime::Key;
use runtime::metrics::Metrics;
use runtime::watch::{Change, Watch};
use serde_json::json;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, SOON};

pub async fn metadata_watch_reports_changes_of_secrets(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx, cx.control_plane().await?).await?;
    let namespace = fixture.namespace.clone();
    let (sender, changes) = mpsc::channel();
    let watch: Watch<PartialObjectMeta<Secret>> =
        Watch::for_metadata(Api::all(fixture.client.clone()), watcher::Config::default(), &Metrics::new())
            .on_change(move |change| {
                let key = Key::from_object(&**change.object());
                let what = match change {
                    Change::Listed(_) => "listed",
                    Change::Applied(_, None) => "created",
                    Change::Applied(_, Some(_)) => "changed",
                    Change::Deleted(_) => "deleted",
                };
                if key.namespace == namespace {
                    // Fails only if the test is over.
                    let _ = sender.send(format!("{what} {}", key.name));
                }
            });
    let cache = watch.cache();
    let watching = tokio::spawn(watch.run());
    cache.wait_synced().await;

    let secrets: Api<Secret> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let set = async |label: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "key", "labels": { "label": label } },
            "stringData": { "key": "the content" },
        });
        secrets.patch("key", &PatchParams::apply("test"), &Patch::Apply(&secret)).await
    };
    set("one").await?;
    set("two").await?;
    secrets.delete("key", &DeleteParams::default()).await?;
    let next = || changes.recv_timeout(SOON);
    assert_eq!([next()?, next()?, next()?], ["created key", "changed key", "deleted key"]);
    watching.abort();
    Ok(())
}
