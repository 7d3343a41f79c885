//! An upstream that listens on a Unix socket.

use std::net::SocketAddr;
use std::path::PathBuf;

use testbed::fakes::recorder::{Recorder, Reply};
use testbed::harness::raw_http::{RawConnection, RawResponse};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::caller::Call;
use crate::fixture::{Fixture, Proxy, SOON};

/// A directory for a socket. Paths of sockets are limited to 107 bytes, so it is not below the log directory.
struct Socket {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Socket {
    fn new() -> Result<Self, Error> {
        let io = |source| Error::Io { what: "creating a directory".into(), source };
        let dir = tempfile::tempdir().map_err(io)?;
        let path = dir.path().join("upstream.sock");
        Ok(Self { _dir: dir, path })
    }
}

/// Starts a proxy whose upstream is a socket.
async fn start(
    fixture: &Fixture<'_>,
    socket: &Socket,
    flags: &[(&str, &str)],
) -> Result<(Proxy, SocketAddr), Error> {
    let mut proxy = fixture
        .proxy("unix")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", format!("unix://{}", socket.path.display()))
        .flag("ignore-paths", "/open")
        .flag("auth-header-fields-enabled", "true")
        .flag("metrics-listen-address", "127.0.0.1:0");
    for (name, value) in flags {
        proxy = proxy.flag(name, value);
    }
    let proxy = proxy.start()?;
    let address = proxy.socket_address("insecure-listen-address").await?;
    Ok((proxy, address))
}

async fn exchange(connection: &mut RawConnection, request: &str) -> Result<RawResponse, Error> {
    connection.send(request).await?;
    connection.read_response("GET").await
}

pub async fn unix_upstream_is_used_like_a_tcp_upstream(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let token = fixture.token("reader", "/metrics").await?;
    let socket = Socket::new()?;
    let upstream = Recorder::start_unix(&socket.path)?;
    let (proxy, address) = start(&fixture, &socket, &[("workers", "1")]).await?;
    let mut connection = RawConnection::connect(address).await?;
    let get = format!("GET /metrics?a=%20b HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {token}\r\n\r\n");
    for _ in 0..10 {
        let response = exchange(&mut connection, &get).await?;
        assert_eq!((response.status, response.text().as_str()), (200, "upstream\n"));
    }
    assert_eq!(upstream.accepted_connections(), 1, "connections are pooled");
    let received = upstream.take();
    assert_eq!((received[0].version.as_str(), received[0].target.as_str()), ("HTTP/1.1", "/metrics?a=%20b"));
    let user = format!("system:serviceaccount:{}:reader", fixture.namespace);
    assert_eq!(received[0].joined_header("x-remote-user"), user);
    assert_eq!(received[0].joined_header("authorization"), "-");
    let body = "5\r\nhello\r\n0\r\n\r\n";
    let post = format!("POST /open HTTP/1.1\r\nHost: proxy\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    assert_eq!(exchange(&mut connection, &post).await?.status, 200);
    let received = upstream.wait_for("the body", SOON, |all| all.iter().any(|one| one.complete)).await?;
    assert_eq!(received[0].body, b"hello");
    assert_eq!(Call::get("/metrics").send_to(&address.to_string()).await?.status, 401);
    let metrics = Call::get("/metrics").send_to(&proxy.address("metrics-listen-address").await?).await?.body;
    let opened = r#"outrigger_proxy_upstream_connections_total{result="opened"} 1"#;
    assert!(metrics.contains(opened), "{metrics}");
    Ok(())
}

pub async fn host_header_over_unix_socket_is_the_clients(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let socket = Socket::new()?;
    let upstream = Recorder::start_unix(&socket.path)?;
    for (flags, request, host) in [
        (&[][..], "GET /open HTTP/1.1\r\nHost: a.test:1\r\n\r\n", "a.test:1"),
        (&[][..], "GET /open HTTP/1.0\r\n\r\n", "localhost"),
        (&[("upstream-host-header", "pinned")][..], "GET /open HTTP/1.1\r\nHost: a.test\r\n\r\n", "pinned"),
    ] {
        let (_proxy, address) = start(&fixture, &socket, flags).await?;
        let mut connection = RawConnection::connect(address).await?;
        assert_eq!(exchange(&mut connection, request).await?.status, 200);
        assert_eq!(upstream.take()[0].joined_header("host"), host);
    }
    Ok(())
}

pub async fn websocket_is_tunneled_over_unix_socket(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let token = fixture.token("reader", "/metrics").await?;
    let socket = Socket::new()?;
    let upstream = Recorder::start_unix(&socket.path)?;
    upstream.answer(|_| Reply::upgrade("websocket", ""));
    let (_proxy, address) = start(&fixture, &socket, &[]).await?;
    let mut connection = RawConnection::connect(address).await?;
    let upgrade = format!(
        "GET /metrics HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    assert_eq!(exchange(&mut connection, &upgrade).await?.status, 101);
    connection.send("there and back").await?;
    assert_eq!(connection.read_exactly(14).await?, b"there and back");
    Ok(())
}

/// Before the upstream listens, while it does, after it is gone, and after its restart.
pub async fn missing_unix_socket_returns_502_until_it_exists(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let socket = Socket::new()?;
    let (proxy, address) = start(&fixture, &socket, &[]).await?;
    let get = async || Call::get("/open").send_to(&address.to_string()).await;
    let missing = get().await?;
    assert_eq!((missing.status, missing.body.as_str()), (502, ""));
    proxy.wait_for_log(&["upstream request failed", "upstream.sock: No such file or directory"]).await?;
    let upstream = Recorder::start_unix(&socket.path)?;
    assert_eq!(get().await?.status, 200);
    drop(upstream);
    wait::until("502 for a refused connection", SOON, || async {
        match get().await {
            Ok(response) if (response.status, response.body.as_str()) == (502, "") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let _restarted = Recorder::start_unix(&socket.path)?;
    assert_eq!(get().await?.status, 200);
    let metrics = Call::get("/metrics").send_to(&proxy.address("metrics-listen-address").await?).await?.body;
    assert!(metrics.contains(r#"reason="upstream_unreachable""#), "{metrics}");
    Ok(())
}

pub async fn relative_unix_upstream_is_rejected_at_start(_: Context) -> TestResult {
    for upstream in ["unix://", "unix://upstream.sock", "unix:/upstream.sock"] {
        let output = std::process::Command::new(testbed::harness::binaries::path("outrigger")?)
            .args(["proxy", "--insecure-listen-address=127.0.0.1:0", &format!("--upstream={upstream}")])
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("--upstream: ") && stderr.contains("unix:///"), "{stderr}");
    }
    Ok(())
}
