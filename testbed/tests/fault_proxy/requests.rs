//! What is done to single requests.

use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use testbed::faults::fault_proxy::{Fault, FaultProxy, Loss, Matching, Refusal, Resource, Times, Verb};
use testbed::{Context, ControlPlane, TestResult};

use crate::bench::{Bench, SOON, client, create, is_reset, map, of_maps, status};

pub async fn a_chosen_status_is_answered_without_asking_the_api_server(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
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
        let refusal =
            Refusal::of(StatusCode::from_u16(code)?).message("not today").retry_after(Duration::from_secs(7));
        let fault = bench.proxy.inject(Fault::Answer(refusal), of_maps().verb(Verb::Create), Times::ONCE);
        let seen = status(create(&bench.maps, "never").await.expect_err("it was refused"))?;
        assert_eq!((seen.code, seen.reason.as_str(), seen.message.as_str()), (code, reason, "not today"));
        assert_eq!(seen.details.ok_or("a refusal without details")?.retry_after_seconds, 7);
        assert_eq!(fault.fired(), 1);
    }
    let exists = Refusal::of(StatusCode::CONFLICT).reason("AlreadyExists");
    bench.proxy.inject(Fault::Answer(exists), Matching::writes(), Times::ONCE);
    let seen = status(create(&bench.maps, "never").await.expect_err("it was refused"))?;
    assert!(seen.is_already_exists(), "{seen:?}");
    let forwarded = bench.proxy.journal().requests(|request| request.upstream.is_some())?;
    assert!(forwarded.is_empty(), "{forwarded:?}");

    // A client with the usual retries gets over it.
    let twice = Fault::Answer(Refusal::of(StatusCode::SERVICE_UNAVAILABLE));
    let twice = bench.proxy.inject(twice, of_maps(), Times::First(2));
    let patient = bench.plane.admin().at(bench.proxy.url()).client("patient").await?;
    create(&Api::namespaced(patient, &bench.ns), "at-last").await?;
    assert_eq!(twice.fired(), 2);
    assert_eq!(bench.there().await?, ["at-last"]);
    Ok(())
}

pub async fn a_request_is_delayed_before_it_is_forwarded(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let time = Duration::from_secs(2);
    let fault = bench.proxy.inject(Fault::Delay(time), of_maps().verb(Verb::Create), Times::ONCE);
    let begin = Instant::now();
    let creating = tokio::spawn({
        let maps = bench.maps.clone();
        async move { create(&maps, "late").await }
    });
    fault.wait_fired(1, SOON).await?;
    assert_eq!(bench.there().await?, [""; 0], "it was forwarded at once");
    creating.await??;
    assert!(begin.elapsed() >= time, "it took {:?}", begin.elapsed());
    assert_eq!(bench.there().await?, ["late"]);
    Ok(())
}

pub async fn an_answer_is_delayed_after_the_write(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let time = Duration::from_secs(2);
    bench.proxy.inject(Fault::DelayAnswer(time), of_maps().verb(Verb::Create), Times::ONCE);
    let begin = Instant::now();
    let creating = tokio::spawn({
        let maps = bench.maps.clone();
        async move { create(&maps, "early").await }
    });
    testbed::harness::wait::until("the object", SOON, || bench.direct.get("early")).await?;
    assert!(!creating.is_finished(), "the answer was not kept back");
    creating.await??;
    assert!(begin.elapsed() >= time, "it took {:?}", begin.elapsed());
    Ok(())
}

pub async fn a_reset_request_is_never_forwarded(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let fault = bench.proxy.inject(Fault::Reset, of_maps().verb(Verb::Create), Times::Nth(2));
    create(&bench.maps, "first").await?;
    let error = create(&bench.maps, "second").await.expect_err("the connection was reset");
    assert!(is_reset(&error), "{error:?}");
    create(&bench.maps, "third").await?;
    assert_eq!(fault.fired(), 1);
    assert_eq!(bench.there().await?, ["first", "third"]);
    Ok(())
}

pub async fn a_write_is_applied_and_its_answer_lost_in_a_reset(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let fault = bench.proxy.inject(Fault::LoseAnswer(Loss::Reset), Matching::writes(), Times::ONCE);
    let error = create(&bench.maps, "there").await.expect_err("the answer was lost");
    assert!(is_reset(&error), "{error:?}");
    fault.wait_fired(1, SOON).await?;
    assert_eq!(bench.there().await?, ["there"]);
    let asked = bench.proxy.journal().requests(|request| request.asked.is_write())?;
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].upstream, asked[0].code), (Some(201), None));
    Ok(())
}

pub async fn a_write_is_applied_and_its_answer_becomes_504(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    bench.proxy.inject(Fault::LoseAnswer(Loss::GatewayTimeout), Matching::writes(), Times::Nth(1));
    let seen = status(create(&bench.maps, "there").await.expect_err("the answer was lost"))?;
    assert_eq!((seen.code, seen.reason.as_str()), (504, "Timeout"));
    assert_eq!(bench.there().await?, ["there"]);

    // With the retries that are usual, a client meets its own write.
    bench.proxy.inject(Fault::LoseAnswer(Loss::GatewayTimeout), Matching::writes(), Times::ONCE);
    let patient = bench.plane.admin().at(bench.proxy.url()).client("patient").await?;
    let again = create(&Api::namespaced(patient, &bench.ns), "mine").await;
    assert!(status(again.expect_err("it is there already"))?.is_already_exists());
    assert_eq!(bench.there().await?, ["mine", "there"]);
    Ok(())
}

pub async fn a_fault_hits_only_whom_it_is_meant_for(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let other_ns = bench.plane.namespace("elsewhere").await?;
    let other = bench.plane.user("other", Some("system:masters"))?;
    let there: Api<ConfigMap> =
        Api::namespaced(client(&bench.proxy, bench.plane.admin(), "one/1").await?, &other_ns);
    let one = bench.maps_of(bench.plane.admin(), "one/1").await?;
    create(&one, "a").await?;

    let matching =
        of_maps().verb(Verb::Get).subresource("").namespace(&bench.ns).name("a").user("admin").agent("one/");
    let fault = bench.proxy.inject(Fault::Reset, matching, Times::Always);
    one.get_opt("b").await?;
    one.list(&ListParams::default()).await?;
    there.get_opt("a").await?;
    bench.maps_of(bench.plane.admin(), "two/1").await?.get("a").await?;
    bench.maps_of(&other, "one/1").await?.get("a").await?;
    Api::<Namespace>::all(client(&bench.proxy, bench.plane.admin(), "one/1").await?).get(&bench.ns).await?;
    assert_eq!(fault.fired(), 0, "somebody else was hit");
    one.get("a").await.expect_err("this is whom it is meant for");
    one.get("a").await.expect_err("always");
    assert_eq!(fault.fired(), 2);
    fault.lift();
    one.get("a").await?;

    let namespaces = Matching::any().resource(Resource::new("", "namespaces")).subresource("status");
    let status_fault = bench.proxy.inject(Fault::Reset, namespaces, Times::Always);
    let api: Api<Namespace> = Api::all(client(&bench.proxy, bench.plane.admin(), "one/1").await?);
    api.get(&bench.ns).await?;
    api.get_status(&bench.ns).await.expect_err("the subresource is meant");
    assert_eq!(status_fault.fired(), 1);
    let late = status_fault.wait_fired(2, Duration::from_millis(50)).await.expect_err("it fired once only");
    assert!(late.to_string().contains("2 times did not happen within"), "{late}");
    Ok(())
}

pub async fn upgrades_are_refused(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let admin = client(&bench.proxy, bench.plane.admin(), "upgrade").await?;
    let path = format!("/api/v1/namespaces/{}/pods/p/exec?command=ls", bench.ns);
    let request = http::Request::get(path)
        .header(http::header::CONNECTION, "Upgrade")
        .header(http::header::UPGRADE, "SPDY/3.1")
        .body(Vec::new())?;
    let seen = status(admin.request_text(request).await.expect_err("an upgrade was passed on"))?;
    assert_eq!(seen.code, 501);
    assert!(seen.message.contains("does not pass on upgrades"), "{seen:?}");
    Ok(())
}

pub async fn an_api_server_that_is_away_looks_like_a_broken_connection(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).start().await?;
    let proxy = FaultProxy::before(&plane).await?;
    let ns = plane.namespace("kept").await?;
    let maps: Api<ConfigMap> = Api::namespaced(client(&proxy, plane.admin(), "away").await?, &ns);
    plane.stop_api_server()?;
    let error = maps.create(&PostParams::default(), &map("a")).await.expect_err("nobody was there");
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
