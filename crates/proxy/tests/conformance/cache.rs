//! CACHE: what is asked how often.

use std::time::{Duration, Instant};

use testbed::TestResult;
use testbed::faults::fault_proxy::{Fault, Times};
use testbed::harness::wait;

use crate::ask::Ask;
use crate::authn::token_reviews;
use crate::authz::access_reviews;
use crate::case::Case;
use crate::program::{Proxy, code};

/// How long an access decision may take to be seen, behind its time.
const SLACK: Duration = Duration::from_secs(20);

/// What is seen again and again up to a moment, or when it was something else.
async fn stays(what: &str, up_to: Instant, look: impl AsyncFn() -> String) -> String {
    let time = up_to.saturating_duration_since(Instant::now());
    let seen = wait::throughout(what, time, || async {
        let seen = look().await;
        if seen == what { Ok(()) } else { Err(seen) }
    });
    seen.await.map_or_else(|error| error.to_string(), |()| what.to_owned())
}

/// What is seen at some time up to a moment, or what was seen instead.
async fn becomes(what: &str, up_to: Instant, look: impl AsyncFn() -> String) -> String {
    let time = up_to.saturating_duration_since(Instant::now());
    let seen = wait::until(what, time, || async {
        let seen = look().await;
        if seen == what { Ok(()) } else { Err(seen) }
    });
    seen.await.map_or_else(|error| error.to_string(), |()| what.to_owned())
}

/// CACHE-01: a token that is used again is asked about once.
pub async fn one_question(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    for _ in 0..20 {
        assert_eq!(proxy.code(&Ask::get("/ok").token(token)).await, "200");
    }
    let calls = case.ground.calls(1, 1).await?;
    case.check("token reviews", 1, calls.token_reviews);
    case.check("access reviews", 1, calls.access_reviews.len());
    Ok(())
}

/// CACHE-02: a token is asked about again after two minutes.
pub async fn tokens_for_two_minutes(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let begin = Instant::now();
    let questions = async || {
        assert_eq!(proxy.code(&Ask::get("/ok").token(token)).await, "200");
        case.ground
            .calls(1, 1)
            .await
            .map_or_else(|error| error.to_string(), |calls| calls.token_reviews.to_string())
    };
    case.check("for 105 s", 1, stays("1", begin + Duration::from_secs(105), &questions).await);
    case.check("by 125 s", 2, becomes("2", begin + Duration::from_secs(125), &questions).await);
    Ok(())
}

/// CACHE-03: a refusal holds for thirty seconds.
pub async fn refusals_for_half_a_minute(case: &Case<'_>) -> TestResult {
    let token = case.ground.stranger().await?;
    let proxy = case.proxy().start().await?;
    let begin = Instant::now();
    let answer = async || proxy.code(&Ask::get("/late").token(&token)).await;
    assert_eq!(answer().await, "403");
    case.ground.grant_paths(&case.ground.name_of("stranger"), &["/late"], &["get"]).await?;
    case.check("for 20 s", 403, stays("403", begin + Duration::from_secs(20), &answer).await);
    case.check("by 32 s", 200, becomes("200", begin + Duration::from_secs(32), &answer).await);
    Ok(())
}

/// CACHE-04: a permission holds for five minutes.
pub async fn permissions_for_five_minutes(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let begin = Instant::now();
    let answer = async || proxy.code(&Ask::get("/ok").token(token)).await;
    assert_eq!(answer().await, "200");
    case.ground.revoke_all().await?;
    wait::until("the end of the permission", SLACK, || async {
        let seen = proxy.code(&Ask::get("/ok/other").token(token)).await;
        if seen == "403" { Ok(()) } else { Err(seen) }
    })
    .await?;
    case.check("for 285 s", 200, stays("200", begin + Duration::from_secs(285), &answer).await);
    case.check("by 303 s", 403, becomes("403", begin + Duration::from_secs(303), &answer).await);
    Ok(())
}

/// CACHE-05: garbage is asked about once in a while, not each time it comes (W7); a failure is not remembered as a refusal.
pub async fn failures(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    // Of a token's form, so that it cannot be refused by its looks. The signature begins otherwise; of its last letter some bits
    // mean nothing.
    let (signed, signature) = token.rsplit_once('.').expect("a token has a signature");
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let garbage = format!("{signed}.{first}{}", &signature[1..]);
    for _ in 0..5 {
        assert_eq!(proxy.code(&Ask::get("/ok").token(&garbage)).await, "401");
    }
    case.check(
        "token reviews for five times the same garbage",
        1,
        case.ground.calls(1, 0).await?.token_reviews,
    );

    let faults = case.faults().await?;
    let refusal = testbed::faults::fault_proxy::Refusal::of(http::StatusCode::FORBIDDEN);
    let outage = faults.inject(Fault::Answer(refusal), token_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("while the API server refuses", 401, proxy.code(&Ask::get("/ok").token(token)).await);
    outage.lift();
    case.check("as soon as it does not", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    Ok(())
}

/// So many at once.
async fn crowd(proxy: &Proxy, ask: &Ask, count: usize) -> String {
    let all = futures_util::future::join_all((0..count).map(|_| proxy.ask(ask))).await;
    let mut codes: Vec<String> = all.iter().map(code).collect();
    codes.sort();
    codes.dedup();
    codes.join(" ")
}

/// CACHE-06: many who come at once with one token ask about it once.
pub async fn a_crowd_with_one_token(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    faults.inject(Fault::Delay(Duration::from_millis(500)), token_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("answers", 200, crowd(&proxy, &Ask::get("/ok").token(token), 15).await);
    case.check("token reviews", 1, case.ground.calls(1, 1).await?.token_reviews);
    Ok(())
}

/// CACHE-07: and about what it may do (W8).
pub async fn a_crowd_with_one_question(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let faults = case.faults().await?;
    faults.inject(Fault::Delay(Duration::from_millis(500)), access_reviews(), Times::Always);
    let proxy = case.proxy().api(faults.url())?.start().await?;
    case.check("answers", 200, crowd(&proxy, &Ask::get("/ok").token(token), 8).await);
    let calls = case.ground.calls(1, 1).await?.access_reviews.len();
    case.check("access reviews", "one", if calls == 1 { "one" } else { "several" });
    Ok(())
}

/// CACHE-08: a new token of the same account is asked about anew, and so is what it may do.
pub async fn a_new_token(case: &Case<'_>) -> TestResult {
    let first = case.ground.caller().await?;
    let second = case.ground.token("caller", &[]).await?;
    let proxy = case.proxy().start().await?;
    for token in [first, &second, first, &second] {
        assert_eq!(proxy.code(&Ask::get("/ok").token(token)).await, "200");
    }
    let calls = case.ground.calls(2, 2).await?;
    case.check("token reviews", 2, calls.token_reviews);
    case.check("access reviews", 2, calls.access_reviews.len());
    Ok(())
}
