//! DOS: attacks, while a well-behaved client sends requests.
//!
//! The latency of that client is compared within one run, alternately with and without the attack, because the machine is
//! shared and its speed varies.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testbed::harness::raw_http::{ClientTls, RawConnection, frames};
use testbed::harness::wait;
use testbed::{Error, Result, TestResult};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::case::Case;
use crate::proxy::{Proxy, status_text};
use crate::raw_request::RawRequest;

/// The source address of attackers.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// The number of rounds, each with a phase without and a phase with the attack, and the length of a phase.
const ROUNDS: usize = 5;
const PHASE: Duration = Duration::from_millis(1200);

/// Deadline for one iteration of an attacker; longer than its wait for a response.
const ITERATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Latencies below this are noise, and so are their ratios.
const NOISE: Duration = Duration::from_millis(20);

/// Deadline for the proxy to close the connection of a stalled client.
const STALL_TIMEOUT: Duration = Duration::from_secs(50);

/// Returns the 99th percentile of the latency of sequential requests on one connection.
async fn p99_latency(proxy: &Proxy, request: &RawRequest) -> Result<Duration> {
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    let (bytes, start, mut times) = (request.bytes(), Instant::now(), Vec::new());
    while start.elapsed() < PHASE {
        let sent = Instant::now();
        connection.send(&bytes).await?;
        let response = connection.read_response(&request.method).await?;
        if response.status != 200 {
            return Err(Error::Other(format!("the well-behaved client got status {}", response.status)));
        }
        times.push(sent.elapsed());
    }
    times.sort();
    Ok(times[times.len() * 99 / 100])
}

/// An attack that can be paused. Ends on drop.
struct Attack {
    /// Read-locked by attackers during an iteration, write-locked while the attack is paused.
    running: Arc<RwLock<()>>,
    paused: Option<OwnedRwLockWriteGuard<()>>,
    done: Arc<AtomicU64>,
    attackers: JoinSet<()>,
}

impl Attack {
    /// Starts `count` attackers, each of which repeats `iteration` until paused.
    fn start<F, Fut>(count: usize, iteration: F) -> Self
    where
        F: Fn() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let (running, done) = (Arc::new(RwLock::new(())), Arc::new(AtomicU64::new(0)));
        let mut attackers = JoinSet::new();
        for _ in 0..count {
            let (running, done, iteration) = (running.clone(), done.clone(), iteration.clone());
            attackers.spawn(async move {
                loop {
                    let _running = running.read().await;
                    iteration().await;
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { running, paused: None, done, attackers }
    }

    /// Waits for running iterations and prevents new ones.
    async fn pause(&mut self) -> Result<()> {
        let stuck = |_| Error::Other("an attacker did not finish its iteration".into());
        self.paused =
            Some(timeout(ITERATION_TIMEOUT, self.running.clone().write_owned()).await.map_err(stuck)?);
        Ok(())
    }

    /// Resumes and waits for as many iterations as there are attackers.
    async fn resume(&mut self) -> Result<()> {
        let before = self.iterations();
        self.paused = None;
        wait::until("an iteration of each attacker", ITERATION_TIMEOUT, || async {
            let done = self.iterations() - before;
            if done >= self.attackers.len() as u64 { Ok(()) } else { Err(format!("{done} iterations")) }
        })
        .await
    }

    /// Returns the number of finished iterations.
    fn iterations(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }
}

/// Checks that the median ratio of latencies with and without the attack is at most two.
async fn check_latency_under_attack(
    case: &Case<'_>,
    proxy: &Proxy,
    request: &RawRequest,
    attack: &mut Attack,
) -> TestResult {
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        attack.pause().await?;
        let quiet = p99_latency(proxy, request).await?;
        attack.resume().await?;
        let before = attack.iterations();
        let under_attack = p99_latency(proxy, request).await?;
        let (iterations, attackers) = (attack.iterations() - before, attack.attackers.len());
        println!(
            "quiet {quiet:?}, under attack {under_attack:?} ({iterations} iterations by {attackers} attackers)"
        );
        ratios.push(under_attack.as_secs_f64() / quiet.max(NOISE / 2).as_secs_f64());
    }
    attack.pause().await?;
    ratios.sort_by(f64::total_cmp);
    case.check("a good client waits at most twice as long", true, ratios[ROUNDS / 2] <= 2.0);
    Ok(())
}

/// The number of idle connections: 10,000 in the full suite.
fn idle_connection_count() -> usize {
    if crate::is_full_run() { 10_000 } else { 1_000 }
}

/// Whether the proxy closes a connection in time.
async fn is_closed_in_time(connection: &mut RawConnection) -> bool {
    connection.read_to_end(STALL_TIMEOUT).await.1
}

/// DOS-01: hundreds of request heads that never end.
pub async fn slow_request_heads_do_not_delay_others(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let mut connections = Vec::new();
    for _ in 0..300 {
        let mut connection = RawConnection::connect_from(ATTACKER, proxy.plain()).await?;
        connection.send("GET /ok HTTP/1.1\r\nHost: proxy.test\r\nX-A: ").await?;
        connections.push(connection);
    }
    let connections = Arc::new(tokio::sync::Mutex::new(connections));
    let slow_connections = connections.clone();
    let mut attack = Attack::start(1, move || {
        let slow_connections = slow_connections.clone();
        async move {
            for connection in slow_connections.lock().await.iter_mut() {
                let _ = connection.send("a").await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    check_latency_under_attack(case, &proxy, &RawRequest::get("/ok").token(token), &mut attack).await?;
    Ok(())
}

/// DOS-02: hundreds of TLS handshakes that never start.
pub async fn stalled_handshakes_do_not_delay_others(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().secure().start().await?;
    let mut connections = Vec::new();
    for _ in 0..300 {
        connections.push(RawConnection::connect_from(ATTACKER, proxy.secure()).await?);
    }
    let start = Instant::now();
    let response = proxy.send_tls(&RawRequest::get("/ok").token(token), &ClientTls::trusting_any()).await;
    case.check("others are served", 200, status_text(&response));
    case.check("within 5 s", true, start.elapsed() < Duration::from_secs(5));
    Ok(())
}

/// DOS-03: thousands of idle connections cost at most 20 KiB each.
pub async fn idle_connections_use_bounded_memory(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token);
    assert_eq!(proxy.status(&request).await, "200");
    let before = proxy.memory_kib()?;
    let mut connections = Vec::new();
    for _ in 0..idle_connection_count() {
        connections.push(RawConnection::connect_from(ATTACKER, proxy.plain()).await?);
    }
    let code = proxy.status(&request).await;
    let growth = proxy.memory_kib()? - before;
    println!("{} connections: {before} KiB before, {growth} KiB more", connections.len());
    case.check("others are served", 200, code);
    case.check("each costs at most 20 KiB", true, growth < 20 * idle_connection_count() as u64);
    drop(connections);
    case.check("afterwards", 200, proxy.status(&request).await);
    Ok(())
}

/// Returns the headers of a valid HTTP/2 request.
fn h2_headers(authorization: &str) -> [(&str, &str); 5] {
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", authorization),
    ]
}

/// DOS-04: HTTP/2 streams that are reset as soon as they are opened.
pub async fn rapid_reset_does_not_delay_others(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token);
    assert_eq!(proxy.status(&request).await, "200");
    let authorization = format!("Bearer {token}");
    let mut flood = frames::preface();
    for number in 0..1_000 {
        flood.extend(frames::request(2 * number + 1, &h2_headers(&authorization)));
        flood.extend(frames::rst_stream(2 * number + 1));
    }
    let (address, flood) = (proxy.plain(), Arc::new(flood));
    let mut attack = Attack::start(2, move || {
        let flood = flood.clone();
        async move {
            if let Ok(mut connection) = RawConnection::connect_from(ATTACKER, address).await {
                let _ = connection.send(&*flood).await;
                connection.read_to_end(Duration::from_millis(100)).await;
            }
        }
    });
    check_latency_under_attack(case, &proxy, &request, &mut attack).await?;
    case.check("it still runs", "yes", proxy.is_running());
    Ok(())
}

/// DOS-05: an HTTP/2 head with endless CONTINUATION frames closes the connection.
pub async fn endless_h2_head_closes_connection(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    assert_eq!(proxy.status(&RawRequest::get("/ok").token(token)).await, "200");
    let before = proxy.memory_kib()?;
    let authorization = format!("Bearer {token}");
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection
        .send(
            [
                frames::preface(),
                frames::frame(0x1, 0x1, 1, &frames::header_block(&h2_headers(&authorization))),
            ]
            .concat(),
        )
        .await?;
    let piece = frames::frame(0x9, 0, 1, &frames::header_block(&[("x-a", "b".repeat(8_000))]));
    let mut sent = 0;
    while sent < 64 << 20 && connection.send(&piece).await.is_ok() {
        sent += piece.len();
    }
    println!("closed after {sent} bytes");
    case.check("closed within 8 MiB", true, sent < 8 << 20);
    let grown = proxy.memory_kib()?.saturating_sub(before);
    case.check("memory", true, grown < 16 * 1024);
    case.check("others are served", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    Ok(())
}

/// DOS-06: a flood of distinct invalid tokens delays neither known nor new callers.
pub async fn random_tokens_do_not_delay_others(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token);
    assert_eq!(proxy.status(&request).await, "200");
    let before = proxy.memory_kib()?;
    let number = Arc::new(AtomicU64::new(0));
    let (address, body) =
        (proxy.plain(), token.rsplit_once('.').map(|(body, _)| body.to_owned()).unwrap_or_default());
    let mut attack = Attack::start(20, move || {
        // A well-formed token, which cannot be rejected without a TokenReview.
        let invalid = format!("{body}.{:086x}", number.fetch_add(1, Ordering::SeqCst));
        async move {
            if let Ok(mut connection) = RawConnection::connect_from(ATTACKER, address).await {
                let _ = connection.send(RawRequest::get("/ok").token(&invalid).bytes()).await;
                let _ = connection.read_response("GET").await;
            }
        }
    });
    check_latency_under_attack(case, &proxy, &request, &mut attack).await?;
    attack.resume().await?;
    let new = case.fixture.issue_token("caller", &[]).await?;
    let start = Instant::now();
    let response = proxy.status(&RawRequest::get("/ok").token(&new)).await;
    println!("a new caller waited {:?} during {} invalid tokens", start.elapsed(), attack.iterations());
    case.check("a new caller", 200, response);
    case.check("is served within 2 s", true, start.elapsed() < Duration::from_secs(2));
    drop(attack);
    case.check("memory", true, proxy.memory_kib()? < before + 32 * 1024);
    Ok(())
}

/// DOS-07: thousands of valid tokens cost at most 8 KiB each.
pub async fn many_valid_tokens_use_bounded_memory(case: &Case<'_>) -> TestResult {
    case.fixture.caller_token().await?;
    let proxy = case.proxy().flags(&["--kube-api-qps=10000", "--kube-api-burst=10000"]).start().await?;
    let first = case.fixture.issue_token("caller", &[]).await?;
    assert_eq!(proxy.status(&RawRequest::get("/ok").token(&first)).await, "200");
    let before = proxy.memory_kib()?;
    for _ in 0..100 {
        let tokens =
            futures_util::future::join_all((0..20).map(|_| case.fixture.issue_token("caller", &[]))).await;
        let requests: Vec<RawRequest> =
            tokens.into_iter().flatten().map(|token| RawRequest::get("/ok").token(&token)).collect();
        let codes =
            futures_util::future::join_all(requests.iter().map(|request| proxy.status(request))).await;
        assert!(codes.len() == 20 && codes.iter().all(|code| code == "200"), "{codes:?}");
    }
    let growth = proxy.memory_kib()?.saturating_sub(before);
    println!("2,000 tokens: {before} KiB before, {growth} KiB more");
    case.check("each costs at most 8 KiB", true, growth < 2_000 * 8);
    Ok(())
}

/// DOS-08: oversized heads, too many headers and HPACK bombs are rejected.
pub async fn oversized_heads_are_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token);
    let check_rejected = async |name: &str, bytes: Vec<u8>| -> TestResult {
        let _ = case.upstream.take();
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        // The proxy may close the connection before it has read everything.
        let _ = connection.send(bytes).await;
        let received = status_text(&connection.read_response("GET").await);
        case.check(
            name,
            "refused",
            if received.starts_with('4') || received == "no answer" { "refused".into() } else { received },
        );
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
        Ok(())
    };
    check_rejected("one header of 2 MiB", request.clone().header("X-A", &"a".repeat(2 << 20)).bytes())
        .await?;
    let many =
        (0..5_000).fold(request.clone(), |request, number| request.header(&format!("X-{number}"), "a"));
    check_rejected("5,000 headers", many.bytes()).await?;
    check_rejected(
        "a path of 2 MiB",
        RawRequest::get(&format!("/ok/{}", "a".repeat(2 << 20))).token(token).bytes(),
    )
    .await?;
    check_rejected("an endless line", vec![b'a'; 2 << 20]).await?;

    let authorization = format!("Bearer {token}");
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    // An HPACK bomb: one header is added to the dynamic table and then referenced many times.
    let mut block = frames::header_block(&h2_headers(&authorization));
    block.extend([0x40, 3, b'x', b'-', b'a', 0x7f, 0x81, 0x1e]);
    block.extend([b'a'; 3_968]);
    block.extend([0xbe; 8_000]);
    let (first, continuation) = block.split_at(12_000.min(block.len()));
    let mut bytes = [frames::preface(), frames::frame(0x1, 0x1, 1, first)].concat();
    bytes.extend(frames::frame(0x9, 0x4, 1, continuation));
    let _ = case.upstream.take();
    let _ = connection.send(bytes).await;
    let server_frames = frames::read_until(&mut connection, Duration::from_secs(5), |server_frames| {
        !server_frames.statuses.is_empty()
            || !server_frames.resets.is_empty()
            || server_frames.goaway.is_some()
    })
    .await?;
    let is_served = server_frames.statuses.iter().any(|(_, code)| *code < 400);
    case.check("32 MiB out of 12 KiB", "refused", if is_served { "served" } else { "refused" });
    case.check("32 MiB out of 12 KiB: came through", 0, case.upstream.take().len());
    case.check("others are served", 200, proxy.status(&request).await);
    Ok(())
}

/// DOS-10: a flood of heads that are as large as allowed, larger, or endless.
pub async fn header_floods_do_not_delay_others(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token);
    assert_eq!(proxy.status(&request).await, "200");
    let head = |count: usize| {
        (0..count)
            .fold(RawRequest::get("/ok"), |request, number| {
                request.header(&format!("X-{number}"), &"a".repeat(90))
            })
            .bytes()
    };
    let mut endless = frames::preface();
    endless.extend(frames::frame(0x1, 0x1, 1, &frames::header_block(&h2_headers("Bearer none"))));
    for _ in 0..30 {
        endless.extend(frames::frame(0x9, 0, 1, &frames::header_block(&[("x-a", "b".repeat(1_000))])));
    }
    let (address, floods) = (proxy.plain(), Arc::new([head(90), head(2_000), endless]));
    let number = Arc::new(AtomicU64::new(0));
    let mut attack = Attack::start(3, move || {
        let floods = floods.clone();
        let which = number.fetch_add(1, Ordering::SeqCst) as usize % floods.len();
        async move {
            if let Ok(mut connection) = RawConnection::connect_from(ATTACKER, address).await {
                // The proxy may close the connection before it has read everything.
                let _ = connection.send(&floods[which]).await;
                connection.read_to_end(Duration::from_millis(20)).await;
            }
        }
    });
    check_latency_under_attack(case, &proxy, &request, &mut attack).await?;
    case.check("it still runs", "yes", proxy.is_running());
    Ok(())
}

/// DOS-09: an incomplete head, handshake or HTTP/2 preface times out.
pub async fn stalled_clients_time_out(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().secure().start().await?;
    let mut head = RawConnection::connect(proxy.plain()).await?;
    head.send("GET /ok HTTP/1.1\r\nHost: proxy.test\r\nX-A: ").await?;
    let mut handshake = RawConnection::connect(proxy.secure()).await?;
    let mut preface = RawConnection::connect(proxy.plain()).await?;
    preface.send("PRI * HTTP/2.0\r\n").await?;
    let closed = tokio::join!(
        is_closed_in_time(&mut head),
        is_closed_in_time(&mut handshake),
        is_closed_in_time(&mut preface)
    );
    case.check("a head that does not end", true, closed.0);
    case.check("a handshake that does not begin", true, closed.1);
    case.check("a connection of HTTP/2 that does not begin", true, closed.2);
    Ok(())
}
