//! OPS: the process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testbed::TestResult;
use testbed::fakes::recorder::{Reply, Step};
use testbed::harness::wait;
use testbed::harness::wire::{Trust, Wire};

use crate::ask::Ask;
use crate::case::Case;
use crate::ground::SOON;
use crate::program::{ENDPOINTS, Proxy, code};

/// How it ended, as `exit 0`, or `runs` after a time.
async fn ended(proxy: &Proxy, within: Duration) -> String {
    let ended = wait::until("an end", within, || async { proxy.ended().ok_or("it runs") });
    ended.await.unwrap_or_else(|_| "runs".into())
}

/// OPS-01: the port of its own endpoints.
pub async fn endpoints(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().secure().endpoints().start().await?;
    let address = SocketAddr::from((proxy.address, ENDPOINTS));
    let ask = |path: &str| Ask::get(path).bytes();
    for (path, wanted) in
        [("/healthz", "200 ok"), ("/ok", "404 404 page not found"), ("/", "404 404 page not found")]
    {
        let mut wire = Wire::encrypted(address, Trust::anybody().config()?).await?;
        wire.send(ask(path)).await?;
        let answer = wire.answer("GET").await?;
        case.check(path, wanted, format!("{} {}", answer.status, answer.text().trim_end()));
    }
    case.check("nothing came to the upstream", 0, case.upstream.take().len());
    Ok(())
}

/// OPS-02: a request under way is answered before the end.
pub async fn in_flight(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| {
        Reply::steps([
            Step::Pause(Duration::from_secs(2)),
            Step::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone".to_vec()),
        ])
    });
    let proxy = case.proxy().start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    case.upstream.until("the request", SOON, |seen| !seen.is_empty()).await?;
    proxy.process.signal(Signal::TERM)?;
    let answer = wire.answer("GET").await;
    case.check(
        "the answer",
        "200 done",
        answer.map_or("no answer".into(), |one| format!("{} {}", one.status, one.text())),
    );
    case.check("the end", "exit 0", ended(&proxy, SOON).await);
    let idle = case.proxy().start().await?;
    let open = Wire::connect(idle.plain()).await?;
    idle.process.signal(Signal::INT)?;
    case.check("the end with an idle connection", "exit 0", ended(&idle, SOON).await);
    drop(open);
    Ok(())
}

fn endless(case: &Case<'_>) {
    case.upstream.answer(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
        Reply::steps([Step::Write(head.into()), Step::Pause(Duration::from_secs(600))])
    });
}

/// OPS-03: a second signal ends it at once.
pub async fn second_signal(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    endless(case);
    let proxy = case.proxy().start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    wire.read().await?;
    proxy.process.signal(Signal::TERM)?;
    // The first one was heard when nobody is let in any more.
    wait::until("the drain", SOON, || async {
        if Wire::connect(proxy.plain()).await.is_err() { Ok(()) } else { Err("it still listens") }
    })
    .await?;
    proxy.process.signal(Signal::TERM)?;
    let how = ended(&proxy, Duration::from_secs(5)).await;
    case.check("at once", true, how.starts_with("exit"));
    Ok(())
}

/// OPS-04: a stream that does not end holds the end back for less than the thirty seconds that a pod has.
pub async fn open_stream(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    endless(case);
    let proxy = case.proxy().start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    wire.read().await?;
    proxy.process.signal(Signal::TERM)?;
    let begin = Instant::now();
    case.check("within 30 s", "exit 0", ended(&proxy, Duration::from_secs(30)).await);
    println!("ended after {:?}", begin.elapsed());
    Ok(())
}

/// OPS-05: without an API server it starts, serves what is open, and refuses the rest.
pub async fn no_api_server(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let orders = case.proxy().api("https://127.0.0.1:1")?.flag("--ignore-paths=/open");
    let proxy = orders.start().await?;
    case.check("an open path", 200, proxy.code(&Ask::get("/open")).await);
    case.check("a token that nobody can look at", 401, proxy.code(&Ask::get("/ok").token(token)).await);
    case.check("it still runs", "yes", proxy.runs());
    Ok(())
}

/// Runs it as in a pod: with the files of a service account where every pod has them.
const IN_A_POD: [&str; 5] = ["unshare", "--mount", "--", "sh", "-c"];

/// OPS-06: a token that is replaced on disk is used from then on, and dropped when it is refused.
pub async fn own_token(case: &Case<'_>) -> TestResult {
    rotated(case, true).await
}

/// OPS-07: an authority of the API server that is added on disk is believed without a restart.
pub async fn own_authority(case: &Case<'_>) -> TestResult {
    rotated(case, false).await
}

async fn rotated(case: &Case<'_>, token_only: bool) -> TestResult {
    let token = case.ground.caller().await?;
    let volume = case.ground.folder.path().join("account");
    std::fs::create_dir_all(&volume)?;
    let proxy_account = case.ground.account("proxy").await?;
    let rule = json!({ "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
                       "resources": ["tokenreviews", "subjectaccessreviews"], "verbs": ["create"] });
    let asked = json!({ "resourceAttributes": { "group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create" } });
    case.ground.grant(&proxy_account, &rule, &asked).await?;
    let good = case.ground.token("proxy", &[]).await?;
    let other = testbed::cluster::pki::Authority::new("another cluster")?;
    let (first_token, first_authority) = if token_only {
        ("worn out", case.ground.plane.authority().pem())
    } else {
        (good.as_str(), other.pem())
    };
    std::fs::write(volume.join("token"), first_token)?;
    std::fs::write(volume.join("ca.crt"), first_authority)?;
    std::fs::write(volume.join("namespace"), &case.ground.namespace)?;
    let script = format!(
        "mkdir -p /var/run/secrets/kubernetes.io/serviceaccount && mount --bind {} /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"",
        volume.display()
    );
    let through: Vec<&str> = IN_A_POD.into_iter().chain([script.as_str(), "sh"]).collect();
    let url = case.ground.plane.url();
    let (host, port) = url.trim_start_matches("https://").split_once(':').ok_or("no port")?;
    let orders = case
        .proxy()
        .through(&through)
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port);
    let proxy = orders.start().await?;
    case.check("before", 401, proxy.code(&Ask::get("/ok").token(token)).await);
    std::fs::write(
        volume.join("new"),
        if token_only { good.as_str() } else { case.ground.plane.authority().pem() },
    )?;
    std::fs::rename(volume.join("new"), volume.join(if token_only { "token" } else { "ca.crt" }))?;
    let healed = wait::until("an answer", Duration::from_secs(100), || async {
        let seen = proxy.code(&Ask::get("/ok").token(token)).await;
        if seen == "200" { Ok(()) } else { Err(seen) }
    })
    .await;
    case.check("afterwards", "served", healed.map_or("refused", |()| "served"));
    Ok(())
}

/// How long a process that could spin is looked at.
const LOOKED_AT: Duration = Duration::from_secs(3);

/// OPS-08: a process without a free descriptor waits for one, and neither ends nor spins.
pub async fn no_descriptors(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().through(&["prlimit", "--nofile=64:64"]).start().await?;
    case.check("before", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    let mut crowd = Vec::new();
    for _ in 0..150 {
        crowd.push(Wire::connect(proxy.plain()).await?);
    }
    let before = proxy.processor_time()?;
    let runs = wait::throughout("it runs", LOOKED_AT, || async { proxy.process.check_alive() });
    case.check("it still runs", "yes", runs.await.map_or("no", |()| "yes"));
    // One that spins takes nearly all of that time.
    case.check("it does not spin", true, proxy.processor_time()? - before < LOOKED_AT / 2);
    drop(crowd);
    let healed = wait::until("an answer", SOON, || async {
        let seen = code(&proxy.ask(&Ask::get("/ok").token(token)).await);
        if seen == "200" { Ok(()) } else { Err(seen) }
    })
    .await;
    case.check("afterwards", "served", healed.map_or("refused", |()| "served"));
    Ok(())
}
