//! Probes of the kubelet while other clients take what they can. Here all of them have the same address, as behind a network
//! that translates addresses, so that nothing but the request tells them apart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use testbed::fakes::recorder::{Recorder, Reply, Step};
use testbed::faults::fault_proxy::{Fault, RequestMatcher, Resource, Times};
use testbed::harness::raw_http::{ClientTls, RawConnection};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tokio::time::timeout;

use crate::fixture::{Fixture, Proxy, ProxyBuilder, SOON};

/// The path of the probe, and another one without authentication.
const PROBE: &str = "/v0/healthz";
const SLOW: &str = "/v0/metrics";

/// `--max-connections`, and how many connections other clients open: more than the proxy accepts above the limit, too.
const LIMIT: usize = 20;
const OTHERS: usize = LIMIT + 300;

/// The timeout of probes in node pods.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a request that must wait is observed.
const OBSERVED: Duration = Duration::from_millis(300);

/// An upstream that never answers one path.
async fn start_upstream() -> Result<Recorder, Error> {
    let upstream = Recorder::start().await?;
    upstream.answer(|request| match request.target.as_str() {
        SLOW => Reply::steps([Step::Pause(Duration::from_secs(600))]),
        _ => Reply::default(),
    });
    Ok(upstream)
}

fn builder<'g>(fixture: &'g Fixture<'_>, upstream: &Recorder) -> ProxyBuilder<'g> {
    fixture
        .proxy("probes")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", format!("{PROBE},{SLOW}"))
        .flag("max-connections", LIMIT)
}

async fn start_plain(fixture: &Fixture<'_>, upstream: &Recorder) -> Result<(Proxy, SocketAddr), Error> {
    let proxy = builder(fixture, upstream).flag("insecure-listen-address", "127.0.0.1:0").start()?;
    let address = proxy.socket_address("insecure-listen-address").await?;
    Ok((proxy, address))
}

/// Opens the connections of other clients, which send these bytes and stay open.
async fn open(address: SocketAddr, request: &str) -> Result<Vec<RawConnection>, Error> {
    let mut connections = Vec::new();
    for _ in 0..OTHERS {
        let mut connection = RawConnection::connect(address).await?;
        // A connection that was closed for a newer one may fail here already.
        let _ = connection.send(request).await;
        connections.push(connection);
    }
    Ok(connections)
}

/// Probes as the kubelet does: a new connection, one request, and a deadline.
async fn probe(connection: impl Future<Output = Result<RawConnection, Error>>) -> Result<Duration, Error> {
    let start = Instant::now();
    let exchange = async {
        let mut connection = connection.await?;
        connection.send(format!("GET {PROBE} HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n")).await?;
        connection.read_response("GET").await
    };
    match timeout(PROBE_TIMEOUT, exchange).await {
        Ok(Ok(response)) if response.status == 200 => Ok(start.elapsed()),
        Ok(other) => Err(Error::Other(format!("a probe got {other:?}"))),
        Err(_) => Err(Error::Other(format!("a probe got no response within {PROBE_TIMEOUT:?}"))),
    }
}

/// Sends probes one after another and prints the slowest.
async fn check_probes(proxy: &Proxy, address: SocketAddr, count: usize) -> TestResult {
    let mut slowest = Duration::ZERO;
    for _ in 0..count {
        slowest = slowest.max(probe(RawConnection::connect(address)).await?);
    }
    println!("{count} probes answered, the slowest within {slowest:?}");
    proxy.process.check_alive()?;
    Ok(())
}

/// Checks that the limit is reached: a request that is not a probe gets no response.
async fn check_limit_is_reached(address: SocketAddr) -> TestResult {
    let mut connection = RawConnection::connect(address).await?;
    connection.send("GET /authorized HTTP/1.1\r\nHost: proxy\r\n\r\n").await?;
    let response = timeout(OBSERVED, connection.read_response("GET")).await;
    assert!(response.is_err(), "the connections of the others do not take all slots: {response:?}");
    Ok(())
}

pub async fn probes_are_answered_beside_idle_connections(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let (proxy, address) = start_plain(&fixture, &upstream).await?;
    let request = format!("GET {PROBE} HTTP/1.1\r\nHost: proxy\r\n\r\n");
    let mut connections = open(address, &request).await?;
    // The first ones were served and are idle now.
    for connection in connections.iter_mut().take(LIMIT) {
        assert_eq!(connection.read_response("GET").await?.status, 200);
    }
    check_limit_is_reached(address).await?;
    check_probes(&proxy, address, 5).await
}

pub async fn probes_are_answered_beside_slow_heads(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let (proxy, address) = start_plain(&fixture, &upstream).await?;
    let _connections = open(address, "GET / HTTP/1.1\r\nHost: proxy\r\nX-A: ").await?;
    check_limit_is_reached(address).await?;
    check_probes(&proxy, address, 5).await
}

pub async fn probes_are_answered_beside_stalled_bodies(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let (proxy, address) = start_plain(&fixture, &upstream).await?;
    let request = format!("POST {PROBE} HTTP/1.1\r\nHost: proxy\r\nContent-Length: 10\r\n\r\n");
    let _connections = open(address, &request).await?;
    check_limit_is_reached(address).await?;
    check_probes(&proxy, address, 5).await
}

/// The API server does not answer, so that each invalid token holds its request for `--kube-api-timeout`.
pub async fn probes_are_answered_beside_invalid_tokens(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let faults = fixture.faults().await?;
    let reviews = RequestMatcher::any().resource(Resource::new("authentication.k8s.io", "tokenreviews"));
    faults.inject(Fault::Delay(Duration::from_secs(300)), reviews, Times::Always);
    let kubeconfig = fixture.logs.join("delayed.kubeconfig");
    std::fs::write(&kubeconfig, fixture.kubeconfig_at(faults.url()))?;
    let proxy = builder(&fixture, &upstream)
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("kubeconfig", kubeconfig.display())
        .flag("kube-api-timeout", "1m")
        .start()?;
    let address = proxy.socket_address("insecure-listen-address").await?;
    let mut connections = Vec::new();
    for number in 0..OTHERS {
        let mut connection = RawConnection::connect(address).await?;
        let head =
            format!("GET /authorized HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer a.b.{number}\r\n\r\n");
        let _ = connection.send(head).await;
        connections.push(connection);
    }
    check_limit_is_reached(address).await?;
    check_probes(&proxy, address, 5).await
}

pub async fn probes_are_answered_beside_slow_responses(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let (proxy, address) = start_plain(&fixture, &upstream).await?;
    let _connections = open(address, &format!("GET {SLOW} HTTP/1.1\r\nHost: proxy\r\n\r\n")).await?;
    upstream.wait_for("slow requests", SOON, |all| all.len() >= LIMIT).await?;
    check_limit_is_reached(address).await?;
    check_probes(&proxy, address, 5).await
}

pub async fn probes_are_answered_beside_stalled_handshakes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let proxy = builder(&fixture, &upstream).flag("secure-listen-address", "127.0.0.1:0").start()?;
    let address = proxy.socket_address("secure-listen-address").await?;
    let _connections = open(address, "").await?;
    let trust = ClientTls::trusting_any().config()?;
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        slowest = slowest.max(probe(RawConnection::connect_tls(address, trust.clone())).await?);
    }
    println!("5 probes over TLS answered, the slowest within {slowest:?}");
    Ok(())
}

/// New connections arrive all the time, so that each probe is soon followed by others.
pub async fn probes_are_answered_while_connections_flood_in(cx: Context) -> TestResult {
    /// Connections that each client holds open.
    const HELD: usize = 200;
    /// Time between two connections of a client. Faster floods of more than 256 connections during one response do displace probes.
    const PACE: Duration = Duration::from_millis(10);
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let (proxy, address) = start_plain(&fixture, &upstream).await?;
    let (opened, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let flood = |_| {
        let (opened, stop) = (opened.clone(), stop.clone());
        tokio::spawn(async move {
            let mut held = std::collections::VecDeque::new();
            let mut pace = tokio::time::interval(PACE);
            while !stop.load(Ordering::Relaxed) {
                pace.tick().await;
                if let Ok(mut connection) = RawConnection::connect(address).await {
                    let _ = connection.send("GET / HTTP/1.1\r\nX-A: ").await;
                    held.push_back(connection);
                    opened.fetch_add(1, Ordering::Relaxed);
                }
                if held.len() > HELD {
                    held.pop_front();
                }
            }
        })
    };
    let clients: Vec<_> = (0..4).map(flood).collect();
    wait::until("more connections than the proxy accepts", SOON, || async {
        let opened = opened.load(Ordering::Relaxed);
        if opened >= OTHERS { Ok(()) } else { Err(format!("{opened} connections")) }
    })
    .await?;
    let before = (opened.load(Ordering::Relaxed), Instant::now());
    // A probe is lost if 256 others connect before its response is sent, which takes long on a busy machine. The kubelet restarts a
    // container after three lost probes in a row.
    let (mut lost, mut in_a_row, mut most_in_a_row) = (0, 0, 0);
    for _ in 0..50 {
        in_a_row = if probe(RawConnection::connect(address)).await.is_ok() { 0 } else { in_a_row + 1 };
        lost += usize::from(in_a_row > 0);
        most_in_a_row = most_in_a_row.max(in_a_row);
    }
    let rate = (opened.load(Ordering::Relaxed) - before.0) as f64 / before.1.elapsed().as_secs_f64();
    println!(
        "{lost} of 50 probes lost, {most_in_a_row} in a row, beside {rate:.0} new connections per second"
    );
    stop.store(true, Ordering::Relaxed);
    join_all(clients).await;
    assert!(most_in_a_row < 3, "{most_in_a_row} probes in a row were lost");
    proxy.process.check_alive()?;
    Ok(())
}

pub async fn request_above_the_limit_waits_for_a_connection_to_close(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = start_upstream().await?;
    let (_proxy, address) = start_plain(&fixture, &upstream).await?;
    let mut connections = Vec::new();
    for _ in 0..LIMIT {
        let mut connection = RawConnection::connect(address).await?;
        connection.send(format!("GET {PROBE} HTTP/1.1\r\nHost: proxy\r\n\r\n")).await?;
        assert_eq!(connection.read_response("GET").await?.header("connection"), None);
        connections.push(connection);
    }
    // A probe above the limit is answered, and its connection closed.
    let mut above = RawConnection::connect(address).await?;
    above.send(format!("GET {PROBE} HTTP/1.1\r\nHost: proxy\r\n\r\n")).await?;
    let response = above.read_response("GET").await?;
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    assert!(above.read_to_end(SOON).await.1);
    let mut waiting = RawConnection::connect(address).await?;
    let request = "GET /authorized HTTP/1.1\r\nHost: proxy\r\n\r\n";
    waiting.send(request).await?;
    {
        let mut response = std::pin::pin!(waiting.read_response("GET"));
        assert!(timeout(OBSERVED, response.as_mut()).await.is_err(), "it waits");
        drop(connections.pop());
        assert_eq!(response.await?.status, 401);
    }
    // The connection has a slot now, and is kept.
    waiting.send(request).await?;
    assert_eq!(waiting.read_response("GET").await?.status, 401);
    Ok(())
}
