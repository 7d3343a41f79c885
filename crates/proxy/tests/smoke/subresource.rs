//! Authorization by a header that names the subresource (`authorization.subresourceFromHeader`).

use std::net::SocketAddr;

use testbed::fakes::recorder::Recorder;
use testbed::harness::raw_http::{RawConnection, RawResponse};
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, Proxy};

/// The configuration of a node's proxy.
const CONFIG: &str = "authorization:\n  resourceAttributes:\n    apiGroup: sei.io\n    resource: seinodetasks\n    \
                      namespace: nodes\n    name: node-0\n  subresourceFromHeader: X-Sei-Task-Kind\n";

async fn start(fixture: &Fixture<'_>, upstream: &Recorder) -> Result<(Proxy, SocketAddr), Error> {
    let proxy = fixture
        .proxy("subresource")
        .config(CONFIG)?
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/open")
        .start()?;
    let address = proxy.socket_address("insecure-listen-address").await?;
    Ok((proxy, address))
}

/// Sends a request with these header lines on a connection of its own.
async fn send(
    address: SocketAddr,
    (method, path): (&str, &str),
    token: &str,
    lines: &[&str],
) -> Result<RawResponse, Error> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let mut connection = RawConnection::connect(address).await?;
    connection
        .send(format!(
            "{method} {path} HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {token}\r\nContent-Length: 2\r\n{lines}\r\n{{}}"
        ))
        .await?;
    connection.read_response(method).await
}

/// Real RBAC decides about each kind. Allowed and denied kinds alternate: a decision that is cached for one kind must not be
/// used for another.
pub async fn task_kind_is_authorized_as_subresource(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let token = fixture.token_for_subresource("restarter", "sei.io", ("seinodetasks", "restart")).await?;
    let upstream = Recorder::start().await?;
    let (_proxy, address) = start(&fixture, &upstream).await?;
    let post = async |lines: &[&str]| send(address, ("POST", "/v0/tasks"), &token, lines).await;
    let user = format!("system:serviceaccount:{}:restarter", fixture.namespace);
    for _ in 0..2 {
        assert_eq!(post(&["X-Sei-Task-Kind: restart"]).await?.status, 200);
        let denied = post(&["X-Sei-Task-Kind: reset-data"]).await?;
        let text =
            format!("Forbidden (user={user}, verb=create, resource=seinodetasks, subresource=reset-data)\n");
        assert_eq!((denied.status, denied.text()), (403, text));
        let denied = post(&[]).await?;
        let text = format!("Forbidden (user={user}, verb=create, resource=seinodetasks, subresource=)\n");
        assert_eq!((denied.status, denied.text()), (403, text));
    }
    let received = upstream.take();
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| request.joined_header("x-sei-task-kind") == "restart"));
    // The header has no effect on other methods: `get seinodetasks` is asked for, and is not granted.
    let denied = send(address, ("GET", "/v0/tasks/1"), &token, &["X-Sei-Task-Kind: restart"]).await?;
    let text = format!("Forbidden (user={user}, verb=get, resource=seinodetasks, subresource=)\n");
    assert_eq!((denied.status, denied.text()), (403, text));
    // It is passed through, also on ignored paths, and the upstream decides about it.
    let open = send(address, ("GET", "/open"), &token, &["X-Sei-Task-Kind: Any Thing"]).await?;
    assert_eq!(open.status, 200);
    assert_eq!(upstream.take()[0].joined_header("x-sei-task-kind"), "Any Thing");
    Ok(())
}

pub async fn bad_subresource_header_returns_400(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let token = fixture.token_for_subresource("restarter", "sei.io", ("seinodetasks", "restart")).await?;
    let upstream = Recorder::start().await?;
    let (_proxy, address) = start(&fixture, &upstream).await?;
    let long = format!("X-Sei-Task-Kind: {}", "a".repeat(64));
    for lines in [
        &["X-Sei-Task-Kind: restart", "X-Sei-Task-Kind: restart"][..],
        &["X-Sei-Task-Kind: restart", "x-sei-task-kind: reset-data"],
        &["X-Sei-Task-Kind: restart", "X_Sei_Task_Kind: reset-data"],
        &["X-Sei-Task-Kind:"],
        &["X-Sei-Task-Kind: Restart"],
        &["X-Sei-Task-Kind: restart,reset-data"],
        &["X-Sei-Task-Kind: restart/x"],
        &["X-Sei-Task-Kind: *"],
        &[&long],
        &["X-Sei-Task-Kind: restart", "Connection: X-Sei-Task-Kind"],
        &["X-Sei-Task-Kind: restart", "Connection: close, x_sei_task_kind"],
    ] {
        let response = send(address, ("POST", "/v0/tasks"), &token, lines).await?;
        assert_eq!(
            (response.status, response.text().as_str()),
            (400, "Bad Request (bad_subresource_header)\n"),
            "{lines:?}"
        );
    }
    assert!(upstream.take().is_empty(), "none is forwarded");
    // A trailer of that name does not arrive.
    let mut connection = RawConnection::connect(address).await?;
    connection
        .send(format!(
            "POST /v0/tasks HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {token}\r\nX-Sei-Task-Kind: restart\r\n\
             Trailer: X-Sei-Task-Kind, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\
             X-Sei-Task-Kind: reset-data\r\nX-Sum: 7\r\n\r\n"
        ))
        .await?;
    assert_eq!(connection.read_response("POST").await?.status, 200);
    let trailers = upstream.take().remove(0).trailers;
    assert!(!trailers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-sei-task-kind")), "{trailers:?}");
    Ok(())
}
