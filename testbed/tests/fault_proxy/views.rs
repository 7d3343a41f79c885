//! Frozen views.

use std::pin::pin;

use futures_util::StreamExt;
use kube::api::{DeleteParams, ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Watch, config_maps, create, set, status, value, with_timeout};

/// Creates three maps. [`change`] then changes one, deletes one and creates one.
async fn prepare(fixture: &Fixture<'_>) -> TestResult {
    for name in ["changed", "deleted", "same"] {
        create(&fixture.direct, name).await?;
        set(&fixture.direct, name, "old").await?;
    }
    Ok(())
}

async fn change(fixture: &Fixture<'_>) -> TestResult {
    set(&fixture.direct, "changed", "new").await?;
    fixture.direct.delete("deleted", &DeleteParams::default()).await?;
    create(&fixture.direct, "new").await?;
    Ok(())
}

/// Returns names and values of the list that a client gets.
async fn list_short(
    maps: &Api<k8s_openapi::api::core::v1::ConfigMap>,
    how: &ListParams,
) -> kube::Result<Vec<String>> {
    Ok(maps.list(how).await?.iter().map(|map| format!("{}={}", map.name_any(), value(map))).collect())
}

const PAST: [&str; 3] = ["changed=old", "deleted=old", "same=old"];
const PRESENT: [&str; 3] = ["changed=new", "new=", "same=old"];

pub async fn frozen_view_returns_past_state_and_thaws_in_order(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    prepare(&fixture).await?;
    let listed = fixture.maps.list(&ListParams::default()).await?;
    let mut watch =
        Watch::on(&fixture.maps, listed.metadata.resource_version.as_deref().unwrap_or("0")).await?;
    let frozen = fixture.proxy.freeze(fixture.proxy.current_revision().await?, config_maps());
    change(&fixture).await?;

    let any = ListParams::default().match_any();
    let paged = ListParams::default().limit(2);
    assert_eq!(list_short(&fixture.maps, &ListParams::default()).await?, PAST);
    assert_eq!(list_short(&fixture.maps, &any).await?, PAST);
    let mut page = fixture.maps.list(&paged).await?;
    let token = page.metadata.continue_.take().ok_or("no second page")?;
    assert_eq!(list_short(&fixture.maps, &paged.continue_token(&token)).await?, PAST[2..]);
    assert_eq!(value(&fixture.maps.get("changed").await?), "old");
    assert_eq!(value(&fixture.maps.get("deleted").await?), "old");
    assert!(fixture.maps.get_opt("new").await?.is_none());
    let metadata = fixture.maps.get_metadata("deleted").await?;
    assert_eq!(metadata.types.as_ref().map(|types| types.kind.as_str()), Some("PartialObjectMetadata"));
    // A list that requires a newer revision is rejected.
    let newer = fixture
        .direct
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .ok_or("no resource version")?;
    let newer = ListParams::default().at(&newer).matching(VersionMatch::NotOlderThan);
    let refused = status(list_short(&fixture.maps, &newer).await.expect_err("newer revision was returned"))?;
    assert!(refused.code == 504 && refused.message.starts_with("Too large resource version"), "{refused:?}");

    fixture.wait_withheld(3, |_| true).await?;
    assert!(watch.is_quiet().await, "newer event was delivered");
    // Writes are still executed and answered.
    assert_eq!(value(&set(&fixture.maps, "same", "mine").await?), "mine");
    assert_eq!(value(&fixture.maps.get("same").await?), "old");
    fixture.wait_withheld(4, |_| true).await?;

    frozen.remove();
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(watch.next_short().await?);
    }
    assert_eq!(events, ["~changed=new", "-deleted=old", "+new", "~same=mine"]);
    set(&fixture.direct, "same", "old").await?;
    assert_eq!(watch.next_short().await?, "~same=old");
    assert_eq!(list_short(&fixture.maps, &ListParams::default()).await?, PRESENT);
    assert!(fixture.maps.get_opt("deleted").await?.is_none());
    Ok(())
}

pub async fn new_watch_in_frozen_view_starts_in_the_past(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    prepare(&fixture).await?;
    let frozen =
        fixture.proxy.freeze(fixture.proxy.current_revision().await?, config_maps().namespace(&fixture.ns));
    change(&fixture).await?;

    let mut watch = Watch::on(&fixture.maps, "0").await?;
    let mut first = [watch.next_short().await?, watch.next_short().await?, watch.next_short().await?];
    first.sort();
    assert_eq!(first, PAST.map(|map| format!("+{map}")));
    // The same with streaming lists and partial metadata.
    let streaming = WatchParams::default().timeout(120).initial_events();
    let mut streamed = pin!(fixture.maps.watch_metadata(&streaming, "0").await?);
    let mut names = Vec::new();
    loop {
        match with_timeout("initial state", streamed.next()).await?.ok_or("watch ended")?? {
            WatchEvent::Added(map) => names.push(map.name_any()),
            WatchEvent::Bookmark(mark) => {
                assert_eq!(
                    mark.metadata.annotations.get("k8s.io/initial-events-end").map(String::as_str),
                    Some("true")
                );
                break;
            }
            other => return Err(format!("unexpected {other:?}").into()),
        }
    }
    names.sort();
    assert_eq!(names, ["changed", "deleted", "same"]);

    fixture.wait_withheld(6, |_| true).await?;
    assert!(watch.is_quiet().await, "newer event was delivered");
    frozen.remove();
    let events = [watch.next_short().await?, watch.next_short().await?, watch.next_short().await?];
    assert_eq!(events, ["~changed=new", "-deleted=old", "+new"]);
    Ok(())
}

pub async fn view_can_be_frozen_at_a_past_revision(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    prepare(&fixture).await?;
    let then = fixture.proxy.current_revision().await?;
    change(&fixture).await?;
    assert_eq!(list_short(&fixture.maps, &ListParams::default()).await?, PRESENT);
    assert!(fixture.proxy.current_revision().await? > then);
    // All resources, but only for one client.
    let frozen_client = fixture.maps_as(fixture.plane.admin(), "frozen/1").await?;
    let frozen =
        fixture.proxy.freeze(then, testbed::faults::fault_proxy::RequestMatcher::any().agent("frozen/"));
    assert_eq!(list_short(&frozen_client, &ListParams::default()).await?, PAST);
    assert_eq!(list_short(&fixture.maps, &ListParams::default()).await?, PRESENT);
    frozen.remove();
    assert_eq!(list_short(&frozen_client, &ListParams::default()).await?, PRESENT);
    Ok(())
}

pub async fn frozen_view_respects_rbac(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    prepare(&fixture).await?;
    fixture.proxy.freeze(fixture.proxy.current_revision().await?, config_maps());
    let jane = fixture.plane.user("jane", None)?;
    let maps = fixture.maps_as(&jane, "jane/1").await?;
    let forbidden = [
        maps.get("same").await.map(drop),
        maps.list(&ListParams::default()).await.map(drop),
        Watch::on(&maps, "0").await.map(drop),
    ];
    for refused in forbidden {
        assert_eq!(status(refused.expect_err("jane has no permissions"))?.code, 403);
    }
    Ok(())
}
