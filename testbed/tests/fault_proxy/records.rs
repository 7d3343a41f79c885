//! The journal, and the end of the proxy.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams, Preconditions, WatchParams};
use testbed::faults::fault_proxy::journal::{self, Entry, Fate, WatchEndCause, WrittenObject};
use testbed::faults::fault_proxy::{EventType, Fault, FaultProxy, RequestMatcher, Times, Verb};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT, Watch, client, status, with_timeout};

pub async fn journal_records_requests_without_secrets(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let agent = "journal-test/1";
    let secrets: Api<Secret> =
        Api::namespaced(client(&fixture.proxy, fixture.plane.admin(), agent).await?, &fixture.ns);
    let fault =
        fixture.proxy.inject(Fault::Reset, RequestMatcher::any().agent(agent).verb(Verb::Get), Times::ONCE);
    let mut watch = std::pin::pin!(secrets.watch(&WatchParams::default().disable_bookmarks(), "0").await?);
    let metadata = ObjectMeta { name: Some("key".into()), ..ObjectMeta::default() };
    let string_data = Some(BTreeMap::from([("password".into(), "hunter2".into())]));
    let made = secrets
        .create(&PostParams::default(), &Secret { metadata, string_data, ..Secret::default() })
        .await?;
    with_timeout("event", futures_util::StreamExt::next(&mut watch)).await?;
    secrets.get("key").await.expect_err("connection was reset");
    fault.remove();
    fault.remove();
    let uid = made.metadata.uid.clone().ok_or("secret without UID")?;
    let only_this = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
    secrets.delete("key", &DeleteParams::default().preconditions(only_this)).await?;

    let entries = journal::read(fixture.proxy.journal().path())?;
    let requests: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            _ => None,
        })
        .collect();
    let short: Vec<_> = requests
        .iter()
        .map(|request| (request.number, request.info.verb, request.code, request.info.name.as_str()))
        .collect();
    assert_eq!(
        short,
        [
            (1, Verb::Watch, Some(200), ""),
            (2, Verb::Create, Some(201), ""),
            (3, Verb::Get, None, "key"),
            (4, Verb::Delete, Some(200), "key")
        ]
    );
    for request in &requests {
        let asked = &request.info;
        assert_eq!(
            (asked.user.as_str(), asked.agent.as_str(), asked.resource.as_str()),
            ("admin", agent, "secrets")
        );
        assert_eq!(
            (asked.namespace.as_str(), asked.group.as_str(), asked.subresource.as_str()),
            (fixture.ns.as_str(), "", "")
        );
        assert!(request.latency_us > 0);
    }
    assert!(requests.is_sorted_by_key(|request| request.at_us));
    assert!(requests[0].info.query.contains("watch=true"), "{:?}", requests[0].info.query);
    assert_eq!(requests[2].faults, ["reset"]);
    let written: Vec<_> = requests.iter().filter_map(|request| request.written.as_ref()).collect();
    let named = WrittenObject { name: "key".into(), ..WrittenObject::default() };
    assert_eq!(written, [&named, &WrittenObject { uid, ..WrittenObject::default() }]);

    let events = fixture.proxy.journal().events(|event| event.watch == 1)?;
    let event = events.first().ok_or("no event recorded")?;
    assert_eq!(
        (event.event_type, event.kind.as_str(), event.name.as_str()),
        (EventType::Added, "Secret", "key")
    );
    assert_eq!((event.namespace.as_str(), event.fate), (fixture.ns.as_str(), Fate::Delivered));
    assert_eq!(Some(event.revision.to_string()), made.metadata.resource_version);
    let faults: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Fault(fault) => Some((fault.number, fault.fault.as_str(), fault.in_force)),
            _ => None,
        })
        .collect();
    assert_eq!(faults, [(1, "reset", true), (1, "reset", false)]);

    let text = std::fs::read_to_string(fixture.proxy.journal().path())?;
    for secret in ["hunter2", "aHVudGVyMg", "password", "uthorization"] {
        assert!(!text.contains(secret), "{secret:?} in the journal");
    }
    Ok(())
}

pub async fn unwritable_journal_stops_the_proxy(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let proxy = FaultProxy::start_with_journal(plane, "/dev/full").await?;
    let admin = client(&proxy, plane.admin(), "unrecorded").await?;
    proxy.check()?;
    // The first request is answered before the write of its entry fails.
    admin.apiserver_version().await?;
    let refused = status(admin.apiserver_version().await.expect_err("unrecorded request was served"))?;
    assert_eq!(refused.code, 500);
    assert!(refused.message.contains("writing /dev/full"), "{refused:?}");
    assert!(proxy.check().is_err() && proxy.journal().entries().is_err());
    Ok(())
}

pub async fn connections_end_with_the_proxy(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let mut watch = Watch::on(&fixture.maps, "0").await?;
    let Fixture { proxy, plane, .. } = fixture;
    let address = proxy.url().trim_start_matches("https://").to_owned();
    let late = client(&proxy, plane.admin(), "late/1").await?;
    let journal = proxy.journal().clone();
    drop(proxy);
    match watch.next().await? {
        None | Some(Err(_)) => {}
        other => return Err(format!("unexpected {other:?}").into()),
    }
    testbed::harness::wait::until("closed port", TIMEOUT, || async {
        match tokio::net::TcpStream::connect(&address).await {
            Ok(_) => Err("port is open"),
            Err(_) => Ok(()),
        }
    })
    .await?;
    late.apiserver_version().await.expect_err("proxy is gone");
    testbed::harness::wait::until("end of the watch in the journal", TIMEOUT, || async {
        let entries = journal.entries().map_err(|error| error.to_string())?;
        let ended =
            |entry: &Entry| matches!(entry, Entry::End(end) if end.watch == 1 && end.end == WatchEndCause::Client);
        if entries.iter().any(ended) { Ok(()) } else { Err("still open".to_owned()) }
    })
    .await?;
    Ok(())
}
