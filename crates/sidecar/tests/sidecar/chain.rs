//! The state of the chain: of a real seid, and of an RPC that is slow or malformed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::api::assert_matches_schema;
use crate::fake_rpc;
use crate::fixture::{Fixture, Sidecar, TIMEOUT};
use crate::seid::{START_TIMEOUT, prepare, query, run_completed, start_seid};

/// Waits until the node has caught up and executed a block at or above a height.
async fn wait_chain(sidecar: &Sidecar, height: i64) -> Result<Value, Error> {
    wait::until(format!("block {height}"), START_TIMEOUT, || async {
        let response = sidecar.get("/v0/chain").await.map_err(|error| error.to_string())?;
        if response.code != 200 {
            return Err(response.body);
        }
        let chain = response.json();
        let is_reached = chain["height"].as_i64() >= Some(height) && chain["catchingUp"] == false;
        if is_reached { Ok(chain) } else { Err(response.body) }
    })
    .await
}

/// Fails unless the sidecar reports that seid does not answer.
async fn assert_no_answer(sidecar: &Sidecar) -> TestResult {
    let response = sidecar.get("/v0/chain").await?;
    assert_eq!(
        (response.code, response.header("content-type"), response.header("retry-after")),
        (503, Some("application/json"), Some("1")),
        "{response:?}"
    );
    let error = response.json()["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.starts_with("seid's RPC does not answer"), "{error}");
    Ok(())
}

pub async fn chain_status_follows_real_seid(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", "trusted-header");
    let site = fixture.site.clone();
    let rpc = format!("http://{}:26657", site.addresses().control_plane());
    let fixture = fixture.env("OUTRIGGER_NODE_RPC", rpc);
    let sidecar = fixture.start().await?.with_user("system:serviceaccount:sei:operator");
    prepare(&sidecar, "val-0").await?;
    let assemble = json!({"accountBalance": "1usei", "namespace": "sei", "nodes": [{"name": "val-0"}]});
    run_completed(&sidecar, "assemble-and-upload-genesis", &assemble).await?;
    run_completed(&sidecar, "configure-genesis", &json!({})).await?;
    run_completed(&sidecar, "config-apply", &json!({"mode": "validator"})).await?;
    assert_no_answer(&sidecar).await?;
    let seid = start_seid(&site, &fixture, "seid")?;

    let first = wait_chain(&sidecar, 2).await?;
    let height = first["height"].as_i64().unwrap_or_default();
    assert_eq!((&first["peers"], first.get("appHashAt")), (&json!(0), None), "{first}");
    let document = sidecar::http::openapi::document();
    let schema = json!({"$ref": "#/components/schemas/ChainStatus"});
    assert_matches_schema(&document, &schema, &first, "chain");
    // The stake of the only validator, in units of a million.
    assert_eq!(first["validatorPower"], json!({"own": 10, "total": 10}), "{first}");
    let later = wait_chain(&sidecar, height + 2).await?;
    assert!(later["latestBlockTime"].as_str() > first["latestBlockTime"].as_str(), "{first} {later}");

    let block = query(&site, 26657, &format!("block?height={}", height + 1)).await?;
    let app_hash = &block["block"]["header"]["app_hash"];
    assert!(app_hash.as_str().is_some_and(|hash| hash.len() == 64), "{block}");
    let response = sidecar.get(&format!("/v0/chain?appHashAt={height}")).await?;
    assert_eq!(response.code, 200, "{response:?}");
    let chain = response.json();
    assert_matches_schema(&document, &schema, &chain, "chain");
    assert_eq!(chain["appHashAt"], json!({"height": height, "appHash": app_hash}));
    assert_eq!(&first["appHash"], app_hash, "height and appHash belong to the same block");
    let unknown = sidecar.get(&format!("/v0/chain?appHashAt={}", height + 1_000_000)).await?;
    assert_eq!((unknown.code, unknown.json().get("appHashAt")), (200, None), "{unknown:?}");

    let head = sidecar.request("HEAD", "/v0/chain", "").await?;
    assert_eq!((head.code, head.body.as_str()), (200, ""));
    let invalid = sidecar.get("/v0/chain?appHashAt=x").await?;
    let error = "invalid appHashAt: expected a block height above 0";
    assert_eq!((invalid.code, invalid.json()), (400, json!({ "error": error })));
    let anonymous = b"GET /v0/chain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(sidecar.send_raw(anonymous).await?.code, 401);

    seid.check_alive()?;
    seid.stop(Duration::from_secs(15))?;
    assert_no_answer(&sidecar).await
}

/// The responses of an RPC by path.
type Respond = fn(&str) -> Value;

pub async fn malformed_rpc_responses_return_503(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let cases: [(Respond, &str); 3] = [
        (
            |_| json!({"code": -32603, "message": "Internal error"}),
            "response to status: response lacks latest_block_height",
        ),
        (fake_rpc::synced_node, "response to abci_info: response lacks response"),
        (
            |path| match path {
                "/abci_info" => json!({"response": {}}),
                path => fake_rpc::synced_node(path),
            },
            "response to net_info: response lacks n_peers",
        ),
    ];
    for (respond, expected) in cases {
        let rpc = fake_rpc::serve(fixture.rpc, respond).await?;
        let response = sidecar.get("/v0/chain?appHashAt=1").await?;
        let error = response.json()["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!(response.code, 503, "{response:?}");
        assert!(error.contains("unexpected") && error.ends_with(expected), "{error}");
        rpc.abort();
        // Frees the port.
        let _ = rpc.await;
    }
    Ok(())
}

/// The open connections of an RPC that never answers, and the most at a time.
#[derive(Default)]
struct Connections {
    open: AtomicUsize,
    peak: AtomicUsize,
}

async fn serve_silence(port: u16) -> std::io::Result<Arc<Connections>> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let connections = Arc::<Connections>::default();
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let connections = counted.clone();
            let open = connections.open.fetch_add(1, Ordering::SeqCst) + 1;
            connections.peak.fetch_max(open, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
                connections.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Ok(connections)
}

pub async fn slow_rpc_is_queried_by_few_callers_at_a_time(cx: Context) -> TestResult {
    const CALLERS: usize = 100;
    /// Four callers with four queries each, and those of the next ones whose predecessors are not yet seen as closed.
    const MAX_CONNECTIONS: usize = 2 * 4 * 4;
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let connections = serve_silence(fixture.rpc).await?;
    let begin = Instant::now();
    let responses = join_all((0..CALLERS).map(|_| sidecar.get("/v0/chain?appHashAt=1"))).await;
    // One after the other, four at a time, they would take 20 seconds.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let mut errors = Vec::new();
    for response in responses {
        let response = response?;
        assert_eq!(response.code, 503, "{response:?}");
        errors.push(response.json()["error"].as_str().unwrap_or_default().to_owned());
    }
    errors.sort();
    errors.dedup();
    let expected = [
        "seid's RPC does not answer, because seid is stopped, starting or overloaded: no response within 800ms",
        "too many concurrent requests for the state of the chain",
    ];
    assert_eq!(errors, expected);
    let peak = connections.peak.load(Ordering::SeqCst);
    assert!((1..=MAX_CONNECTIONS).contains(&peak), "{peak} connections at a time");
    wait::until("all queries to end", TIMEOUT, || async {
        match connections.open.load(Ordering::SeqCst) {
            0 => Ok(()),
            open => Err(format!("{open} connections")),
        }
    })
    .await?;
    Ok(())
}
