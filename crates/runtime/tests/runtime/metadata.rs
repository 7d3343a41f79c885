//! Kinds whose content must not be held are watched by their metadata.

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

use crate::process::{Ground, SOON};

pub async fn secrets_are_watched_by_their_metadata(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let namespace = ground.namespace.clone();
    let (told, news) = mpsc::channel();
    let watch: Watch<PartialObjectMeta<Secret>> =
        Watch::of_metadata(Api::all(ground.client.clone()), watcher::Config::default(), &Metrics::new())
            .tell(move |change| {
                let key = Key::of(&**change.object());
                let what = match change {
                    Change::Listed(_) => "listed",
                    Change::Changed(_, None) => "made",
                    Change::Changed(_, Some(_)) => "changed",
                    Change::Gone(_) => "gone",
                };
                if key.namespace == namespace {
                    // The test may have ended.
                    let _ = told.send(format!("{what} {}", key.name));
                }
            });
    let cache = watch.cache();
    let watching = tokio::spawn(watch.run());
    cache.synced().await;

    let secrets: Api<Secret> = Api::namespaced(ground.client.clone(), &ground.namespace);
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
    let next = || news.recv_timeout(SOON);
    assert_eq!([next()?, next()?, next()?], ["made key", "changed key", "gone key"]);
    watching.abort();
    Ok(())
}
