//! Views that have stopped.

use std::pin::pin;

use futures_util::StreamExt;
use kube::api::{DeleteParams, ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use testbed::{Context, TestResult};

use crate::bench::{Bench, Watch, create, of_maps, set, soon, status, value};

/// Three maps, and what happens to them while the view is frozen: one is changed, one is deleted, one is new.
async fn prepare(bench: &Bench<'_>) -> TestResult {
    for name in ["changed", "deleted", "same"] {
        create(&bench.direct, name).await?;
        set(&bench.direct, name, "old").await?;
    }
    Ok(())
}

async fn change(bench: &Bench<'_>) -> TestResult {
    set(&bench.direct, "changed", "new").await?;
    bench.direct.delete("deleted", &DeleteParams::default()).await?;
    create(&bench.direct, "new").await?;
    Ok(())
}

/// Names and values of the list that a client sees.
async fn seen(
    maps: &Api<k8s_openapi::api::core::v1::ConfigMap>,
    how: &ListParams,
) -> kube::Result<Vec<String>> {
    Ok(maps.list(how).await?.iter().map(|map| format!("{}={}", map.name_any(), value(map))).collect())
}

const PAST: [&str; 3] = ["changed=old", "deleted=old", "same=old"];
const PRESENT: [&str; 3] = ["changed=new", "new=", "same=old"];

pub async fn a_frozen_view_shows_the_past_and_thaws_in_order(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    prepare(&bench).await?;
    let listed = bench.maps.list(&ListParams::default()).await?;
    let mut watch =
        Watch::on(&bench.maps, listed.metadata.resource_version.as_deref().unwrap_or("0")).await?;
    let frozen = bench.proxy.freeze(bench.proxy.now().await?, of_maps());
    change(&bench).await?;

    let any = ListParams::default().match_any();
    let paged = ListParams::default().limit(2);
    assert_eq!(seen(&bench.maps, &ListParams::default()).await?, PAST);
    assert_eq!(seen(&bench.maps, &any).await?, PAST);
    let mut page = bench.maps.list(&paged).await?;
    let token = page.metadata.continue_.take().ok_or("there is no second page")?;
    assert_eq!(seen(&bench.maps, &paged.continue_token(&token)).await?, PAST[2..]);
    assert_eq!(value(&bench.maps.get("changed").await?), "old");
    assert_eq!(value(&bench.maps.get("deleted").await?), "old");
    assert!(bench.maps.get_opt("new").await?.is_none());
    let metadata = bench.maps.get_metadata("deleted").await?;
    assert_eq!(metadata.types.as_ref().map(|types| types.kind.as_str()), Some("PartialObjectMetadata"));
    // Who insists on something newer is told that it is not there.
    let newer =
        bench.direct.list(&ListParams::default()).await?.metadata.resource_version.ok_or("no version")?;
    let newer = ListParams::default().at(&newer).matching(VersionMatch::NotOlderThan);
    let refused = status(seen(&bench.maps, &newer).await.expect_err("the future was shown"))?;
    assert!(refused.code == 504 && refused.message.starts_with("Too large resource version"), "{refused:?}");

    bench.wait_withheld(3, |_| true).await?;
    assert!(watch.is_quiet().await, "something newer was told");
    // A write is done all the same, and answered.
    assert_eq!(value(&set(&bench.maps, "same", "mine").await?), "mine");
    assert_eq!(value(&bench.maps.get("same").await?), "old");
    bench.wait_withheld(4, |_| true).await?;

    frozen.lift();
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(watch.told().await?);
    }
    assert_eq!(told, ["~changed=new", "-deleted=old", "+new", "~same=mine"]);
    set(&bench.direct, "same", "old").await?;
    assert_eq!(watch.told().await?, "~same=old");
    assert_eq!(seen(&bench.maps, &ListParams::default()).await?, PRESENT);
    assert!(bench.maps.get_opt("deleted").await?.is_none());
    Ok(())
}

pub async fn a_watch_that_begins_in_a_frozen_view_begins_with_the_past(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    prepare(&bench).await?;
    let frozen = bench.proxy.freeze(bench.proxy.now().await?, of_maps().namespace(&bench.ns));
    change(&bench).await?;

    let mut watch = Watch::on(&bench.maps, "0").await?;
    let mut first = [watch.told().await?, watch.told().await?, watch.told().await?];
    first.sort();
    assert_eq!(first, PAST.map(|map| format!("+{map}")));
    // The same for a client that wants the list as a part of the watch, and only metadata.
    let streaming = WatchParams::default().timeout(120).initial_events();
    let mut streamed = pin!(bench.maps.watch_metadata(&streaming, "0").await?);
    let mut names = Vec::new();
    loop {
        match soon("the state", streamed.next()).await?.ok_or("the watch ended")?? {
            WatchEvent::Added(map) => names.push(map.name_any()),
            WatchEvent::Bookmark(mark) => {
                assert_eq!(
                    mark.metadata.annotations.get("k8s.io/initial-events-end").map(String::as_str),
                    Some("true")
                );
                break;
            }
            other => return Err(format!("the watch gave {other:?}").into()),
        }
    }
    names.sort();
    assert_eq!(names, ["changed", "deleted", "same"]);

    bench.wait_withheld(6, |_| true).await?;
    assert!(watch.is_quiet().await, "something newer was told");
    frozen.lift();
    let told = [watch.told().await?, watch.told().await?, watch.told().await?];
    assert_eq!(told, ["~changed=new", "-deleted=old", "+new"]);
    Ok(())
}

pub async fn a_view_frozen_earlier_makes_a_client_travel_in_time(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    prepare(&bench).await?;
    let then = bench.proxy.now().await?;
    change(&bench).await?;
    assert_eq!(seen(&bench.maps, &ListParams::default()).await?, PRESENT);
    assert!(bench.proxy.now().await? > then);
    // Everybody's past, of every kind, but only for one client.
    let traveller = bench.maps_of(bench.plane.admin(), "traveller/1").await?;
    let frozen = bench.proxy.freeze(then, testbed::faults::fault_proxy::Matching::any().agent("traveller/"));
    assert_eq!(seen(&traveller, &ListParams::default()).await?, PAST);
    assert_eq!(seen(&bench.maps, &ListParams::default()).await?, PRESENT);
    frozen.lift();
    assert_eq!(seen(&traveller, &ListParams::default()).await?, PRESENT);
    Ok(())
}

pub async fn a_frozen_view_opens_nothing_that_is_forbidden(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    prepare(&bench).await?;
    bench.proxy.freeze(bench.proxy.now().await?, of_maps());
    let jane = bench.plane.user("jane", None)?;
    let maps = bench.maps_of(&jane, "jane/1").await?;
    let forbidden = [
        maps.get("same").await.map(drop),
        maps.list(&ListParams::default()).await.map(drop),
        Watch::on(&maps, "0").await.map(drop),
    ];
    for refused in forbidden {
        assert_eq!(status(refused.expect_err("jane may read nothing"))?.code, 403);
    }
    Ok(())
}
