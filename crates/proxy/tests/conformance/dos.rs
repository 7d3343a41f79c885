//! DOS: whoever means harm, while a good client goes on working.
//!
//! How long a good client waits is compared within one run: with the attack and without it, in turns, since the machine is
//! shared and its speed changes.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testbed::harness::wait;
use testbed::harness::wire::{Trust, Wire, frames};
use testbed::{Error, Result, TestResult};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ask::Ask;
use crate::case::Case;
use crate::program::{Proxy, code};

/// Whoever attacks has an address of his own.
const MALLORY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// How often quiet and attack take turns, and how long each is.
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(1200);

/// The longest that an attacker takes for one act: longer than he waits for an answer.
const ACT: Duration = Duration::from_secs(60);

/// What nobody notices: below this, a ratio is one of noise.
const UNNOTICED: Duration = Duration::from_millis(20);

/// After this time a client that says nothing, or not enough, is given up.
const GIVEN_UP: Duration = Duration::from_secs(50);

/// The 99th percentile of what a good client waits for its answers, one after the other on one connection.
async fn waits(proxy: &Proxy, ask: &Ask) -> Result<Duration> {
    let mut wire = Wire::connect(proxy.plain()).await?;
    let (bytes, begin, mut times) = (ask.bytes(), Instant::now(), Vec::new());
    while begin.elapsed() < TURN {
        let sent = Instant::now();
        wire.send(&bytes).await?;
        let answer = wire.answer(&ask.method).await?;
        if answer.status != 200 {
            return Err(Error::Refused(format!("a good client was answered {}", answer.status)));
        }
        times.push(sent.elapsed());
    }
    times.sort();
    Ok(times[times.len() * 99 / 100])
}

/// An attack that pauses now and then. It is over when this is dropped.
struct Attack {
    /// Held by attackers while they act, and alone while there is peace.
    ground: Arc<RwLock<()>>,
    peace: Option<OwnedRwLockWriteGuard<()>>,
    done: Arc<AtomicU64>,
    attackers: JoinSet<()>,
}

impl Attack {
    /// So many attackers, each of whom does something again and again, but for times of peace.
    fn by<F, Fut>(count: usize, act: F) -> Self
    where
        F: Fn() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let (ground, done) = (Arc::new(RwLock::new(())), Arc::new(AtomicU64::new(0)));
        let mut attackers = JoinSet::new();
        for _ in 0..count {
            let (ground, done, act) = (ground.clone(), done.clone(), act.clone());
            attackers.spawn(async move {
                loop {
                    let _acts = ground.read().await;
                    act().await;
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { ground, peace: None, done, attackers }
    }

    /// Waits until nobody acts any more, and lets nobody.
    async fn pause(&mut self) -> Result<()> {
        let late = |_| Error::Refused("an attacker does not come to an end".into());
        self.peace = Some(timeout(ACT, self.ground.clone().write_owned()).await.map_err(late)?);
        Ok(())
    }

    /// Goes on, and waits until as much was done as there are attackers.
    async fn resume(&mut self) -> Result<()> {
        let before = self.done();
        self.peace = None;
        wait::until("an attack by all", ACT, || async {
            let done = self.done() - before;
            if done >= self.attackers.len() as u64 { Ok(()) } else { Err(format!("{done} acts")) }
        })
        .await
    }

    /// How often somebody has acted.
    fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }
}

/// Compares what a good client waits with and without the attack, in turns; the middle one of the ratios counts.
async fn undisturbed(case: &Case<'_>, proxy: &Proxy, ask: &Ask, attack: &mut Attack) -> TestResult {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        attack.pause().await?;
        let quiet = waits(proxy, ask).await?;
        attack.resume().await?;
        let before = attack.done();
        let under_attack = waits(proxy, ask).await?;
        let (acts, by) = (attack.done() - before, attack.attackers.len());
        println!("quiet {quiet:?}, under attack {under_attack:?} ({acts} acts by {by})");
        rounds.push(under_attack.as_secs_f64() / quiet.max(UNNOTICED / 2).as_secs_f64());
    }
    attack.pause().await?;
    rounds.sort_by(f64::total_cmp);
    case.check("a good client waits at most twice as long", true, rounds[ROUNDS / 2] <= 2.0);
    Ok(())
}

/// How many connections stand idle: ten thousand in the whole suite.
fn many() -> usize {
    if crate::is_whole() { 10_000 } else { 1_000 }
}

/// Whether a connection that says no more is closed in time.
async fn given_up(wire: &mut Wire) -> bool {
    wire.rest(GIVEN_UP).await.1
}

/// DOS-01: heads that never end.
pub async fn slow_heads(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        let mut wire = Wire::connect_from(MALLORY, proxy.plain()).await?;
        wire.send("GET /ok HTTP/1.1\r\nHost: proxy.test\r\nX-A: ").await?;
        crowd.push(wire);
    }
    let crowd = Arc::new(tokio::sync::Mutex::new(crowd));
    let slow = crowd.clone();
    let mut attack = Attack::by(1, move || {
        let slow = slow.clone();
        async move {
            for wire in slow.lock().await.iter_mut() {
                let _ = wire.send("a").await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    undisturbed(case, &proxy, &Ask::get("/ok").token(token), &mut attack).await?;
    Ok(())
}

/// DOS-02: handshakes that never begin.
pub async fn slow_handshakes(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().secure().start().await?;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(Wire::connect_from(MALLORY, proxy.secure()).await?);
    }
    let begin = Instant::now();
    let answer = proxy.ask_secure(&Ask::get("/ok").token(token), &Trust::anybody()).await;
    case.check("others are served", 200, code(&answer));
    case.check("at once", true, begin.elapsed() < Duration::from_secs(5));
    Ok(())
}

/// DOS-03: connections that do nothing.
pub async fn idle_connections(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token);
    assert_eq!(proxy.code(&ask).await, "200");
    let before = proxy.memory()?;
    let mut crowd = Vec::new();
    for _ in 0..many() {
        crowd.push(Wire::connect_from(MALLORY, proxy.plain()).await?);
    }
    let code = proxy.code(&ask).await;
    let growth = proxy.memory()? - before;
    println!("{} connections: {before} KiB and {growth} KiB more", crowd.len());
    case.check("others are served", 200, code);
    case.check("each costs at most 20 KiB", true, growth < 20 * many() as u64);
    drop(crowd);
    case.check("afterwards", 200, proxy.code(&ask).await);
    Ok(())
}

/// A request over HTTP/2 that may pass.
fn lines(authorization: &str) -> [(&str, &str); 5] {
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", authorization),
    ]
}

/// DOS-04: requests that are taken back as soon as they are made.
pub async fn rapid_reset(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token);
    assert_eq!(proxy.code(&ask).await, "200");
    let authorization = format!("Bearer {token}");
    let mut flood = frames::begin();
    for number in 0..1_000 {
        flood.extend(frames::request(2 * number + 1, &lines(&authorization)));
        flood.extend(frames::reset(2 * number + 1));
    }
    let (address, flood) = (proxy.plain(), Arc::new(flood));
    let mut attack = Attack::by(2, move || {
        let flood = flood.clone();
        async move {
            if let Ok(mut wire) = Wire::connect_from(MALLORY, address).await {
                let _ = wire.send(&*flood).await;
                wire.rest(Duration::from_millis(100)).await;
            }
        }
    });
    undisturbed(case, &proxy, &ask, &mut attack).await?;
    case.check("it still runs", "yes", proxy.runs());
    Ok(())
}

/// DOS-05: a head in HTTP/2 that goes on for ever.
pub async fn endless_head(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    assert_eq!(proxy.code(&Ask::get("/ok").token(token)).await, "200");
    let before = proxy.memory()?;
    let authorization = format!("Bearer {token}");
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send([frames::begin(), frames::frame(0x1, 0x1, 1, &frames::block(&lines(&authorization)))].concat())
        .await?;
    let piece = frames::frame(0x9, 0, 1, &frames::block(&[("x-a", "b".repeat(8_000))]));
    let mut sent = 0;
    while sent < 64 << 20 && wire.send(&piece).await.is_ok() {
        sent += piece.len();
    }
    println!("ended after {sent} bytes");
    case.check("ended within 8 MiB", true, sent < 8 << 20);
    let grown = proxy.memory()?.saturating_sub(before);
    case.check("memory", true, grown < 16 * 1024);
    case.check("others are served", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    Ok(())
}

/// DOS-06: tokens that are none, each another one: neither a known caller nor a new one waits for them.
pub async fn bad_tokens(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token);
    assert_eq!(proxy.code(&ask).await, "200");
    let before = proxy.memory()?;
    let number = Arc::new(AtomicU64::new(0));
    let (address, body) =
        (proxy.plain(), token.rsplit_once('.').map(|(body, _)| body.to_owned()).unwrap_or_default());
    let mut attack = Attack::by(20, move || {
        // Of a token's form, so that it cannot be refused by its looks.
        let garbage = format!("{body}.{:086x}", number.fetch_add(1, Ordering::SeqCst));
        async move {
            if let Ok(mut wire) = Wire::connect_from(MALLORY, address).await {
                let _ = wire.send(Ask::get("/ok").token(&garbage).bytes()).await;
                let _ = wire.answer("GET").await;
            }
        }
    });
    undisturbed(case, &proxy, &ask, &mut attack).await?;
    attack.resume().await?;
    let new = case.ground.token("caller", &[]).await?;
    let begin = Instant::now();
    let answer = proxy.code(&Ask::get("/ok").token(&new)).await;
    println!("a new caller waited {:?}, {} bad tokens", begin.elapsed(), attack.done());
    case.check("a new caller", 200, answer);
    case.check("is served within 2 s", true, begin.elapsed() < Duration::from_secs(2));
    drop(attack);
    case.check("memory", true, proxy.memory()? < before + 32 * 1024);
    Ok(())
}

/// DOS-07: very many good tokens.
pub async fn good_tokens(case: &Case<'_>) -> TestResult {
    case.ground.caller().await?;
    let proxy = case.proxy().flags(&["--kube-api-qps=10000", "--kube-api-burst=10000"]).start().await?;
    let first = case.ground.token("caller", &[]).await?;
    assert_eq!(proxy.code(&Ask::get("/ok").token(&first)).await, "200");
    let before = proxy.memory()?;
    for _ in 0..100 {
        let tokens = futures_util::future::join_all((0..20).map(|_| case.ground.token("caller", &[]))).await;
        let asks: Vec<Ask> =
            tokens.into_iter().flatten().map(|token| Ask::get("/ok").token(&token)).collect();
        let codes = futures_util::future::join_all(asks.iter().map(|ask| proxy.code(ask))).await;
        assert!(codes.len() == 20 && codes.iter().all(|code| code == "200"), "{codes:?}");
    }
    let growth = proxy.memory()?.saturating_sub(before);
    println!("2,000 tokens: {before} KiB and {growth} KiB more");
    case.check("each costs at most 8 KiB", true, growth < 2_000 * 8);
    Ok(())
}

/// DOS-08: heads that are too large.
pub async fn large_heads(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token);
    let refused = async |name: &str, bytes: Vec<u8>| -> TestResult {
        let _ = case.upstream.take();
        let mut wire = Wire::connect(proxy.plain()).await?;
        // It may be closed before all of it was said.
        let _ = wire.send(bytes).await;
        let seen = code(&wire.answer("GET").await);
        case.check(
            name,
            "refused",
            if seen.starts_with('4') || seen == "no answer" { "refused".into() } else { seen },
        );
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
        Ok(())
    };
    refused("one header of 2 MiB", ask.clone().header("X-A", &"a".repeat(2 << 20)).bytes()).await?;
    let many = (0..5_000).fold(ask.clone(), |ask, number| ask.header(&format!("X-{number}"), "a"));
    refused("5,000 headers", many.bytes()).await?;
    refused("a path of 2 MiB", Ask::get(&format!("/ok/{}", "a".repeat(2 << 20))).token(token).bytes())
        .await?;
    refused("no end of a line", vec![b'a'; 2 << 20]).await?;

    let authorization = format!("Bearer {token}");
    let mut wire = Wire::connect(proxy.plain()).await?;
    // One line is put into the table, and then named again and again: few bytes, much memory.
    let mut block = frames::block(&lines(&authorization));
    block.extend([0x40, 3, b'x', b'-', b'a', 0x7f, 0x81, 0x1e]);
    block.extend([b'a'; 3_968]);
    block.extend([0xbe; 8_000]);
    let (first, rest) = block.split_at(12_000.min(block.len()));
    let mut bytes = [frames::begin(), frames::frame(0x1, 0x1, 1, first)].concat();
    bytes.extend(frames::frame(0x9, 0x4, 1, rest));
    let _ = case.upstream.take();
    let _ = wire.send(bytes).await;
    let said = frames::listen(&mut wire, Duration::from_secs(5), |said| {
        !said.answers.is_empty() || !said.resets.is_empty() || said.goaway.is_some()
    })
    .await?;
    let good = said.answers.iter().any(|(_, code)| *code < 400);
    case.check("32 MiB out of 12 KiB", "refused", if good { "served" } else { "refused" });
    case.check("32 MiB out of 12 KiB: came through", 0, case.upstream.take().len());
    case.check("others are served", 200, proxy.code(&ask).await);
    Ok(())
}

/// DOS-10: a flood of heads, each as large as it may be, larger, or without an end.
pub async fn floods_of_headers(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token);
    assert_eq!(proxy.code(&ask).await, "200");
    let head = |count: usize| {
        (0..count)
            .fold(Ask::get("/ok"), |ask, number| ask.header(&format!("X-{number}"), &"a".repeat(90)))
            .bytes()
    };
    let mut endless = frames::begin();
    endless.extend(frames::frame(0x1, 0x1, 1, &frames::block(&lines("Bearer none"))));
    for _ in 0..30 {
        endless.extend(frames::frame(0x9, 0, 1, &frames::block(&[("x-a", "b".repeat(1_000))])));
    }
    let (address, floods) = (proxy.plain(), Arc::new([head(90), head(2_000), endless]));
    let number = Arc::new(AtomicU64::new(0));
    let mut attack = Attack::by(3, move || {
        let floods = floods.clone();
        let which = number.fetch_add(1, Ordering::SeqCst) as usize % floods.len();
        async move {
            if let Ok(mut wire) = Wire::connect_from(MALLORY, address).await {
                // It may be closed before all of it was said.
                let _ = wire.send(&floods[which]).await;
                wire.rest(Duration::from_millis(20)).await;
            }
        }
    });
    undisturbed(case, &proxy, &ask, &mut attack).await?;
    case.check("it still runs", "yes", proxy.runs());
    Ok(())
}

/// DOS-09: whoever does not go on is given up (W10).
pub async fn given_up_in_time(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().secure().start().await?;
    let mut head = Wire::connect(proxy.plain()).await?;
    head.send("GET /ok HTTP/1.1\r\nHost: proxy.test\r\nX-A: ").await?;
    let mut handshake = Wire::connect(proxy.secure()).await?;
    let mut preface = Wire::connect(proxy.plain()).await?;
    preface.send("PRI * HTTP/2.0\r\n").await?;
    let all = tokio::join!(given_up(&mut head), given_up(&mut handshake), given_up(&mut preface));
    case.check("a head that does not end", true, all.0);
    case.check("a handshake that does not begin", true, all.1);
    case.check("a connection of HTTP/2 that does not begin", true, all.2);
    Ok(())
}
