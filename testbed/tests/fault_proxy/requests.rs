//! Faults of single requests.

use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use testbed::faults::fault_proxy::{
    ErrorResponse, Fault, FaultProxy, LostResponse, RequestMatcher, Resource, Times, Verb,
};
use testbed::{Context, ControlPlane, TestResult};

use crate::fixture::{Fixture, TIMEOUT, client, config_maps, create, is_reset, map, status};

pub async fn injected_status_is_not_forwarded(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let table = [
        (403, "Forbidden"),
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ];
    for (code, reason) in table {
        let refusal = ErrorResponse::new(StatusCode::from_u16(code)?)
            .message("not today")
            .retry_after(Duration::from_secs(7));
        let fault =
            fixture.proxy.inject(Fault::Respond(refusal), config_maps().verb(Verb::Create), Times::ONCE);
        let seen = status(create(&fixture.maps, "never").await.expect_err("injected error"))?;
        assert_eq!((seen.code, seen.reason.as_str(), seen.message.as_str()), (code, reason, "not today"));
        assert_eq!(seen.details.ok_or("error without details")?.retry_after_seconds, 7);
        assert_eq!(fault.fired(), 1);
    }
    let exists = ErrorResponse::new(StatusCode::CONFLICT).reason("AlreadyExists");
    fixture.proxy.inject(Fault::Respond(exists), RequestMatcher::writes(), Times::ONCE);
    let seen = status(create(&fixture.maps, "never").await.expect_err("injected error"))?;
    assert!(seen.is_already_exists(), "{seen:?}");
    let forwarded = fixture.proxy.journal().requests(|request| request.upstream.is_some())?;
    assert!(forwarded.is_empty(), "{forwarded:?}");

    // A client with default retries recovers.
    let twice = Fault::Respond(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE));
    let twice = fixture.proxy.inject(twice, config_maps(), Times::First(2));
    let patient = fixture.plane.admin().at(fixture.proxy.url()).client("patient").await?;
    create(&Api::namespaced(patient, &fixture.ns), "at-last").await?;
    assert_eq!(twice.fired(), 2);
    assert_eq!(fixture.stored_names().await?, ["at-last"]);
    Ok(())
}

pub async fn request_is_delayed_before_forwarding(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let time = Duration::from_secs(2);
    let fault = fixture.proxy.inject(Fault::Delay(time), config_maps().verb(Verb::Create), Times::ONCE);
    let started = Instant::now();
    let creating = tokio::spawn({
        let maps = fixture.maps.clone();
        async move { create(&maps, "late").await }
    });
    fault.wait_fired(1, TIMEOUT).await?;
    assert_eq!(fixture.stored_names().await?, [""; 0], "forwarded without delay");
    creating.await??;
    assert!(started.elapsed() >= time, "took {:?}", started.elapsed());
    assert_eq!(fixture.stored_names().await?, ["late"]);
    Ok(())
}

pub async fn response_is_delayed_after_the_write(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let time = Duration::from_secs(2);
    fixture.proxy.inject(Fault::DelayResponse(time), config_maps().verb(Verb::Create), Times::ONCE);
    let started = Instant::now();
    let creating = tokio::spawn({
        let maps = fixture.maps.clone();
        async move { create(&maps, "early").await }
    });
    testbed::harness::wait::until("object", TIMEOUT, || fixture.direct.get("early")).await?;
    assert!(!creating.is_finished(), "response was not delayed");
    creating.await??;
    assert!(started.elapsed() >= time, "took {:?}", started.elapsed());
    Ok(())
}

pub async fn reset_request_is_not_forwarded(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let fault = fixture.proxy.inject(Fault::Reset, config_maps().verb(Verb::Create), Times::Nth(2));
    create(&fixture.maps, "first").await?;
    let error = create(&fixture.maps, "second").await.expect_err("connection was reset");
    assert!(is_reset(&error), "{error:?}");
    create(&fixture.maps, "third").await?;
    assert_eq!(fault.fired(), 1);
    assert_eq!(fixture.stored_names().await?, ["first", "third"]);
    Ok(())
}

pub async fn lost_response_of_applied_write_is_a_reset(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let fault =
        fixture.proxy.inject(Fault::LoseResponse(LostResponse::Reset), RequestMatcher::writes(), Times::ONCE);
    let error = create(&fixture.maps, "there").await.expect_err("response was lost");
    assert!(is_reset(&error), "{error:?}");
    fault.wait_fired(1, TIMEOUT).await?;
    assert_eq!(fixture.stored_names().await?, ["there"]);
    let writes = fixture.proxy.journal().requests(|request| request.info.is_write())?;
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!((writes[0].upstream, writes[0].code), (Some(201), None));
    Ok(())
}

pub async fn lost_response_of_applied_write_is_a_504(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.proxy.inject(
        Fault::LoseResponse(LostResponse::GatewayTimeout),
        RequestMatcher::writes(),
        Times::Nth(1),
    );
    let seen = status(create(&fixture.maps, "there").await.expect_err("response was lost"))?;
    assert_eq!((seen.code, seen.reason.as_str()), (504, "Timeout"));
    assert_eq!(fixture.stored_names().await?, ["there"]);

    // With default retries, a client conflicts with its own write.
    fixture.proxy.inject(
        Fault::LoseResponse(LostResponse::GatewayTimeout),
        RequestMatcher::writes(),
        Times::ONCE,
    );
    let patient = fixture.plane.admin().at(fixture.proxy.url()).client("patient").await?;
    let again = create(&Api::namespaced(patient, &fixture.ns), "mine").await;
    assert!(status(again.expect_err("already exists"))?.is_already_exists());
    assert_eq!(fixture.stored_names().await?, ["mine", "there"]);
    Ok(())
}

pub async fn fault_applies_only_to_matching_requests(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let other_ns = fixture.plane.namespace("elsewhere").await?;
    let other = fixture.plane.user("other", Some("system:masters"))?;
    let there: Api<ConfigMap> =
        Api::namespaced(client(&fixture.proxy, fixture.plane.admin(), "one/1").await?, &other_ns);
    let one = fixture.maps_as(fixture.plane.admin(), "one/1").await?;
    create(&one, "a").await?;

    let matching = config_maps()
        .verb(Verb::Get)
        .subresource("")
        .namespace(&fixture.ns)
        .name("a")
        .user("admin")
        .agent("one/");
    let fault = fixture.proxy.inject(Fault::Reset, matching, Times::Always);
    one.get_opt("b").await?;
    one.list(&ListParams::default()).await?;
    there.get_opt("a").await?;
    fixture.maps_as(fixture.plane.admin(), "two/1").await?.get("a").await?;
    fixture.maps_as(&other, "one/1").await?.get("a").await?;
    Api::<Namespace>::all(client(&fixture.proxy, fixture.plane.admin(), "one/1").await?)
        .get(&fixture.ns)
        .await?;
    assert_eq!(fault.fired(), 0, "another request was affected");
    one.get("a").await.expect_err("matching request");
    one.get("a").await.expect_err("matching request");
    assert_eq!(fault.fired(), 2);
    fault.remove();
    one.get("a").await?;

    let namespaces = RequestMatcher::any().resource(Resource::new("", "namespaces")).subresource("status");
    let status_fault = fixture.proxy.inject(Fault::Reset, namespaces, Times::Always);
    let api: Api<Namespace> = Api::all(client(&fixture.proxy, fixture.plane.admin(), "one/1").await?);
    api.get(&fixture.ns).await?;
    api.get_status(&fixture.ns).await.expect_err("matching subresource");
    assert_eq!(status_fault.fired(), 1);
    let late = status_fault.wait_fired(2, Duration::from_millis(50)).await.expect_err("fired only once");
    assert!(late.to_string().contains("waiting for fault \"reset\" 2 times"), "{late}");
    Ok(())
}

pub async fn upgrades_are_rejected(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let admin = client(&fixture.proxy, fixture.plane.admin(), "upgrade").await?;
    let path = format!("/api/v1/namespaces/{}/pods/p/exec?command=ls", fixture.ns);
    let request = http::Request::get(path)
        .header(http::header::CONNECTION, "Upgrade")
        .header(http::header::UPGRADE, "SPDY/3.1")
        .body(Vec::new())?;
    let seen = status(admin.request_text(request).await.expect_err("upgrade was forwarded"))?;
    assert_eq!(seen.code, 501);
    assert!(seen.message.contains("does not support upgrades"), "{seen:?}");
    Ok(())
}

pub async fn unreachable_api_server_resets_the_connection(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    let proxy = FaultProxy::start(&plane).await?;
    let ns = plane.namespace("kept").await?;
    let maps: Api<ConfigMap> = Api::namespaced(client(&proxy, plane.admin(), "away").await?, &ns);
    plane.stop_api_server()?;
    let error = maps.create(&PostParams::default(), &map("a")).await.expect_err("API server was down");
    assert!(is_reset(&error), "{error:?}");
    let failed = proxy.journal().requests(|request| request.failure.is_some())?;
    assert_eq!(failed.len(), 1);
    let why = failed[0].failure.clone().unwrap_or_default();
    assert!(why.contains("Connection refused"), "{why}");
    assert_eq!((failed[0].code, failed[0].upstream), (None, None));
    plane.start_api_server().await?;
    maps.create(&PostParams::default(), &map("a")).await?;
    proxy.check()?;
    Ok(())
}
