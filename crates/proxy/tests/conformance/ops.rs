//! OPS: the lifecycle of the process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testbed::TestResult;
use testbed::fakes::recorder::{Reply, Step};
use testbed::harness::raw_http::{ClientTls, RawConnection};
use testbed::harness::wait;

use crate::case::Case;
use crate::fixture::SOON;
use crate::proxy::{ENDPOINTS, Proxy, status_text};
use crate::raw_request::RawRequest;

/// Waits for the exit and returns its status such as `exit 0`, or `runs` after the timeout.
async fn wait_for_exit(proxy: &Proxy, within: Duration) -> String {
    let status = wait::until("the exit", within, || async { proxy.exit_status().ok_or("it runs") });
    status.await.unwrap_or_else(|_| "runs".into())
}

/// OPS-01: --proxy-endpoints-port serves /healthz and nothing else.
pub async fn endpoints_port_serves_healthz_only(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().secure().endpoints().start().await?;
    let address = SocketAddr::from((proxy.address, ENDPOINTS));
    let request = |path: &str| RawRequest::get(path).bytes();
    for (path, expected) in
        [("/healthz", "200 ok"), ("/ok", "404 404 page not found"), ("/", "404 404 page not found")]
    {
        let mut connection = RawConnection::connect_tls(address, ClientTls::trusting_any().config()?).await?;
        connection.send(request(path)).await?;
        let response = connection.read_response("GET").await?;
        case.check(path, expected, format!("{} {}", response.status, response.text().trim_end()));
    }
    case.check("forwarded requests", 0, case.upstream.take().len());
    Ok(())
}

/// OPS-02: requests in flight are answered before shutdown; idle connections do not delay it.
pub async fn sigterm_drains_requests_in_flight(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| {
        Reply::steps([
            Step::Pause(Duration::from_secs(2)),
            Step::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone".to_vec()),
        ])
    });
    let proxy = case.proxy().start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    case.upstream.wait_for("the request", SOON, |received| !received.is_empty()).await?;
    proxy.process.signal(Signal::TERM)?;
    let response = connection.read_response("GET").await;
    case.check(
        "the answer",
        "200 done",
        response.map_or("no answer".into(), |response| format!("{} {}", response.status, response.text())),
    );
    case.check("the exit status", "exit 0", wait_for_exit(&proxy, SOON).await);
    let idle = case.proxy().start().await?;
    let open = RawConnection::connect(idle.plain()).await?;
    idle.process.signal(Signal::INT)?;
    case.check("the exit status with an idle connection", "exit 0", wait_for_exit(&idle, SOON).await);
    drop(open);
    Ok(())
}

fn serve_endless_stream(case: &Case<'_>) {
    case.upstream.answer(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
        Reply::steps([Step::Write(head.into()), Step::Pause(Duration::from_secs(600))])
    });
}

/// OPS-03: a second signal ends the drain immediately.
pub async fn second_signal_stops_immediately(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    serve_endless_stream(case);
    let proxy = case.proxy().start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    connection.read().await?;
    proxy.process.signal(Signal::TERM)?;
    // The first signal has been handled when the proxy no longer accepts connections.
    wait::until("the drain", SOON, || async {
        if RawConnection::connect(proxy.plain()).await.is_err() { Ok(()) } else { Err("it still listens") }
    })
    .await?;
    proxy.process.signal(Signal::TERM)?;
    let status = wait_for_exit(&proxy, Duration::from_secs(5)).await;
    case.check("at once", true, status.starts_with("exit"));
    Ok(())
}

/// OPS-04: an open stream delays shutdown by less than a pod's grace period of 30 s.
pub async fn open_stream_does_not_block_shutdown(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    serve_endless_stream(case);
    let proxy = case.proxy().start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    connection.read().await?;
    proxy.process.signal(Signal::TERM)?;
    let start = Instant::now();
    case.check("within 30 s", "exit 0", wait_for_exit(&proxy, Duration::from_secs(30)).await);
    println!("exited after {:?}", start.elapsed());
    Ok(())
}

/// OPS-05: without an API server the proxy starts, serves ignored paths and rejects tokens.
pub async fn unreachable_api_server_serves_ignored_paths(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let builder = case.proxy().api_server("https://127.0.0.1:1")?.flag("--ignore-paths=/open");
    let proxy = builder.start().await?;
    case.check("an ignored path", 200, proxy.status(&RawRequest::get("/open")).await);
    case.check(
        "a token that cannot be reviewed",
        401,
        proxy.status(&RawRequest::get("/ok").token(token)).await,
    );
    case.check("it still runs", "yes", proxy.is_running());
    Ok(())
}

/// Runs a command with the service account files mounted as in a pod.
const IN_A_POD: [&str; 5] = ["unshare", "--mount", "--", "sh", "-c"];

/// OPS-06: a service account token replaced on disk is used for the next review.
pub async fn service_account_token_is_reloaded(case: &Case<'_>) -> TestResult {
    check_reload(case, true).await
}

/// OPS-07: a CA of the API server replaced on disk is trusted without a restart.
pub async fn api_server_ca_is_reloaded(case: &Case<'_>) -> TestResult {
    check_reload(case, false).await
}

/// Replaces the token or the CA of the proxy's service account.
async fn check_reload(case: &Case<'_>, replaces_token: bool) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let volume = case.fixture.dir.path().join("account");
    std::fs::create_dir_all(&volume)?;
    let proxy_account = case.fixture.create_account("proxy").await?;
    let rule = json!({ "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
                       "resources": ["tokenreviews", "subjectaccessreviews"], "verbs": ["create"] });
    let attributes = json!({ "resourceAttributes": { "group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create" } });
    case.fixture.grant(&proxy_account, &rule, &attributes).await?;
    let good = case.fixture.issue_token("proxy", &[]).await?;
    let other = testbed::cluster::pki::CertificateAuthority::new("another cluster")?;
    let (first_token, first_ca) = if replaces_token {
        ("expired", case.fixture.plane.ca().pem())
    } else {
        (good.as_str(), other.pem())
    };
    std::fs::write(volume.join("token"), first_token)?;
    std::fs::write(volume.join("ca.crt"), first_ca)?;
    std::fs::write(volume.join("namespace"), &case.fixture.namespace)?;
    let script = format!(
        "mkdir -p /var/run/secrets/kubernetes.io/serviceaccount && mount --bind {} /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"",
        volume.display()
    );
    let wrapper: Vec<&str> = IN_A_POD.into_iter().chain([script.as_str(), "sh"]).collect();
    let url = case.fixture.plane.url();
    let (host, port) = url.trim_start_matches("https://").split_once(':').ok_or("no port")?;
    let builder = case
        .proxy()
        .wrapped_by(&wrapper)
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port);
    let proxy = builder.start().await?;
    case.check("before", 401, proxy.status(&RawRequest::get("/ok").token(token)).await);
    std::fs::write(
        volume.join("new"),
        if replaces_token { good.as_str() } else { case.fixture.plane.ca().pem() },
    )?;
    std::fs::rename(volume.join("new"), volume.join(if replaces_token { "token" } else { "ca.crt" }))?;
    let served = wait::until("status 200", Duration::from_secs(100), || async {
        let received = proxy.status(&RawRequest::get("/ok").token(token)).await;
        if received == "200" { Ok(()) } else { Err(received) }
    })
    .await;
    case.check("afterwards", "served", served.map_or("refused", |()| "served"));
    Ok(())
}

/// How long the CPU time of the process is measured.
const MEASURED: Duration = Duration::from_secs(3);

/// OPS-08: a process without free file descriptors waits for one; it neither exits nor spins.
pub async fn descriptor_exhaustion_neither_exits_nor_spins(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().wrapped_by(&["prlimit", "--nofile=64:64"]).start().await?;
    case.check("before", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    let mut connections = Vec::new();
    for _ in 0..150 {
        connections.push(RawConnection::connect(proxy.plain()).await?);
    }
    let before = proxy.cpu_time()?;
    let runs = wait::throughout("it runs", MEASURED, || async { proxy.process.check_alive() });
    case.check("it still runs", "yes", runs.await.map_or("no", |()| "yes"));
    // A process that spins uses nearly all of that time.
    case.check("it does not spin", true, proxy.cpu_time()? - before < MEASURED / 2);
    drop(connections);
    let served = wait::until("status 200", SOON, || async {
        let received = status_text(&proxy.send(&RawRequest::get("/ok").token(token)).await);
        if received == "200" { Ok(()) } else { Err(received) }
    })
    .await;
    case.check("afterwards", "served", served.map_or("refused", |()| "served"));
    Ok(())
}
