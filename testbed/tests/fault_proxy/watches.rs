//! Faults of watches and their events.

use http::StatusCode;
use kube::api::{DeleteParams, ListParams, WatchEvent};
use testbed::faults::fault_proxy::journal::{Entry, Fate, WatchEndCause};
use testbed::faults::fault_proxy::{
    ErrorResponse, EventType, RequestMatcher, Resource, Times, Verb, WatchEnd,
};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT, Watch, config_maps, create, is_reset, set};

pub async fn open_watches_are_reset(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let mut watch = Watch::on(&fixture.maps, "0").await?;
    create(&fixture.direct, "a").await?;
    assert_eq!(watch.next_short().await?, "+a");
    let secrets = RequestMatcher::any().resource(Resource::new("", "secrets"));
    assert_eq!(fixture.proxy.end_watches(&secrets, &WatchEnd::Reset), 0, "no matching watch");
    assert_eq!(fixture.proxy.end_watches(&config_maps(), &WatchEnd::Reset), 1);
    let error = watch.expect_broken().await?;
    assert!(is_reset(&error), "{error:?}");
    assert_eq!(fixture.proxy.end_watches(&config_maps(), &WatchEnd::Reset), 0, "already closed");
    assert_eq!(Watch::on(&fixture.maps, "0").await?.next_short().await?, "+a");
    let ended = fixture.proxy.journal().entries()?.into_iter().find_map(|entry| match entry {
        Entry::End(end) => Some((end.watch, end.end)),
        _ => None,
    });
    assert_eq!(ended, Some((1, WatchEndCause::Reset)));
    Ok(())
}

pub async fn open_watches_end_with_an_error(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let mut watch = Watch::on(&fixture.maps, "0").await?;
    let expired = WatchEnd::Error(ErrorResponse::new(StatusCode::GONE).message("too old resource version"));
    assert_eq!(fixture.proxy.end_watches(&config_maps().verb(Verb::Watch), &expired), 1);
    match watch.next().await? {
        Some(Ok(WatchEvent::Error(seen))) => assert_eq!((seen.code, seen.reason.as_str()), (410, "Expired")),
        other => return Err(format!("unexpected {other:?}").into()),
    }
    assert!(watch.next().await?.is_none(), "clean end");
    Ok(())
}

pub async fn black_hole_silences_watches_until_removed(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let mut open = Watch::on(&fixture.maps, "0").await?;
    create(&fixture.direct, "before").await?;
    assert_eq!(open.next_short().await?, "+before");

    let hole = fixture.proxy.black_hole(config_maps());
    let mut new = Watch::on(&fixture.maps, "0").await?;
    hole.wait_fired(2, TIMEOUT).await?;
    // A client that disconnects in the black hole is detected.
    drop(Watch::on(&fixture.maps, "0").await?);
    testbed::harness::wait::until("end of the third watch", TIMEOUT, || async {
        let entries = fixture.proxy.journal().entries().map_err(|error| error.to_string())?;
        let gone = |entry: &Entry| matches!(entry, Entry::End(end) if end.end == WatchEndCause::Client);
        if entries.iter().any(gone) { Ok(()) } else { Err("still open".to_owned()) }
    })
    .await?;
    create(&fixture.maps, "during").await?;
    fixture.wait_withheld(2, |event| event.name == "during").await?;
    assert!(open.is_quiet().await && new.is_quiet().await, "black hole delivered something");
    assert_eq!(fixture.maps.list(&ListParams::default()).await?.items.len(), 2, "requests are not affected");

    hole.remove();
    for watch in [&mut open, &mut new] {
        let error = watch.expect_broken().await?;
        assert!(is_reset(&error), "{error:?}");
    }
    let mut after = Watch::on(&fixture.maps, "0").await?;
    let mut seen = [after.next_short().await?, after.next_short().await?];
    seen.sort();
    assert_eq!(seen, ["+before", "+during"]);
    Ok(())
}

pub async fn matching_events_are_dropped(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let deletions = fixture.proxy.drop_events([EventType::Deleted], config_maps().name("a"), Times::Always);
    let second_change = fixture.proxy.drop_events([EventType::Modified], config_maps(), Times::Nth(2));
    let everything =
        fixture.proxy.drop_events([], config_maps().namespace(&fixture.ns).name("unseen"), Times::Always);
    let mut watch = Watch::on(&fixture.maps, "0").await?;
    for name in ["a", "unseen", "b"] {
        create(&fixture.direct, name).await?;
    }
    for value in ["1", "2", "3"] {
        set(&fixture.direct, "a", value).await?;
    }
    for name in ["a", "unseen", "b"] {
        fixture.direct.delete(name, &DeleteParams::default()).await?;
    }
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(watch.next_short().await?);
    }
    assert_eq!(seen, ["+a", "+b", "~a=1", "~a=3", "-b"]);
    assert_eq!((deletions.fired(), second_change.fired(), everything.fired()), (1, 1, 2));
    let dropped = fixture.proxy.journal().events(|event| event.fate == Fate::Dropped)?;
    let dropped: Vec<_> = dropped.iter().map(|event| (event.event_type, event.name.as_str())).collect();
    assert_eq!(
        dropped,
        [
            (EventType::Added, "unseen"),
            (EventType::Modified, "a"),
            (EventType::Deleted, "a"),
            (EventType::Deleted, "unseen"),
        ]
    );
    Ok(())
}
