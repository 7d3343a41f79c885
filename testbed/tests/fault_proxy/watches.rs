//! What is done to watches and their events.

use http::StatusCode;
use kube::api::{DeleteParams, ListParams, WatchEvent};
use testbed::faults::fault_proxy::journal::{End, Entry, Fate};
use testbed::faults::fault_proxy::{EventType, Matching, Refusal, Resource, Times, Verb, WatchEnd};
use testbed::{Context, TestResult};

use crate::bench::{Bench, SOON, Watch, create, is_reset, of_maps, set};

pub async fn open_watches_are_reset(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let mut watch = Watch::on(&bench.maps, "0").await?;
    create(&bench.direct, "a").await?;
    assert_eq!(watch.told().await?, "+a");
    let secrets = Matching::any().resource(Resource::new("", "secrets"));
    assert_eq!(bench.proxy.end_watches(&secrets, &WatchEnd::Reset), 0, "no such watch is open");
    assert_eq!(bench.proxy.end_watches(&of_maps(), &WatchEnd::Reset), 1);
    let error = watch.broken().await?;
    assert!(is_reset(&error), "{error:?}");
    assert_eq!(bench.proxy.end_watches(&of_maps(), &WatchEnd::Reset), 0, "it was open no longer");
    assert_eq!(Watch::on(&bench.maps, "0").await?.told().await?, "+a");
    let ended = bench.proxy.journal().entries()?.into_iter().find_map(|entry| match entry {
        Entry::End(end) => Some((end.watch, end.end)),
        _ => None,
    });
    assert_eq!(ended, Some((1, End::Reset)));
    Ok(())
}

pub async fn open_watches_end_with_an_error(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let mut watch = Watch::on(&bench.maps, "0").await?;
    let expired = WatchEnd::Error(Refusal::of(StatusCode::GONE).message("too old resource version"));
    assert_eq!(bench.proxy.end_watches(&of_maps().verb(Verb::Watch), &expired), 1);
    match watch.next().await? {
        Some(Ok(WatchEvent::Error(seen))) => assert_eq!((seen.code, seen.reason.as_str()), (410, "Expired")),
        other => return Err(format!("the watch gave {other:?}").into()),
    }
    assert!(watch.next().await?.is_none(), "it ends in good order");
    Ok(())
}

pub async fn a_black_hole_swallows_watches_until_it_is_lifted(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let mut open = Watch::on(&bench.maps, "0").await?;
    create(&bench.direct, "before").await?;
    assert_eq!(open.told().await?, "+before");

    let hole = bench.proxy.black_hole(of_maps());
    let mut new = Watch::on(&bench.maps, "0").await?;
    hole.wait_fired(2, SOON).await?;
    // A client that gives up in the hole is noticed all the same.
    drop(Watch::on(&bench.maps, "0").await?);
    testbed::harness::wait::until("the end of the third watch", SOON, || async {
        let entries = bench.proxy.journal().entries().map_err(|error| error.to_string())?;
        let gone = |entry: &Entry| matches!(entry, Entry::End(end) if end.end == End::Client);
        if entries.iter().any(gone) { Ok(()) } else { Err("it is open".to_owned()) }
    })
    .await?;
    create(&bench.maps, "during").await?;
    bench.wait_withheld(2, |event| event.name == "during").await?;
    assert!(open.is_quiet().await && new.is_quiet().await, "something came out of the hole");
    assert_eq!(bench.maps.list(&ListParams::default()).await?.items.len(), 2, "requests work");

    hole.lift();
    for watch in [&mut open, &mut new] {
        let error = watch.broken().await?;
        assert!(is_reset(&error), "{error:?}");
    }
    let mut after = Watch::on(&bench.maps, "0").await?;
    let mut seen = [after.told().await?, after.told().await?];
    seen.sort();
    assert_eq!(seen, ["+before", "+during"]);
    Ok(())
}

pub async fn chosen_events_are_dropped(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let deletions = bench.proxy.drop_events([EventType::Deleted], of_maps().name("a"), Times::Always);
    let second_change = bench.proxy.drop_events([EventType::Modified], of_maps(), Times::Nth(2));
    let everything =
        bench.proxy.drop_events([], of_maps().namespace(&bench.ns).name("unseen"), Times::Always);
    let mut watch = Watch::on(&bench.maps, "0").await?;
    for name in ["a", "unseen", "b"] {
        create(&bench.direct, name).await?;
    }
    for value in ["1", "2", "3"] {
        set(&bench.direct, "a", value).await?;
    }
    for name in ["a", "unseen", "b"] {
        bench.direct.delete(name, &DeleteParams::default()).await?;
    }
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(watch.told().await?);
    }
    assert_eq!(seen, ["+a", "+b", "~a=1", "~a=3", "-b"]);
    assert_eq!((deletions.fired(), second_change.fired(), everything.fired()), (1, 1, 2));
    let dropped = bench.proxy.journal().events(|event| event.fate == Fate::Dropped)?;
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
