//! Real seid nodes run with the genesis, keys and config that the sidecar creates.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use serde_json::{Value, json};
use testbed::cluster::parts::Part;
use testbed::cluster::s3::S3;
use testbed::cluster::site::Site;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, Sidecar, exchange};

/// How long seid may take on a busy machine.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Enough validators to tolerate the loss of one.
const NODES: u16 = 4;

const CHAIN: &str = "test-1";

pub async fn run_completed(sidecar: &Sidecar, task_type: &str, params: &Value) -> Result<Value, Error> {
    let task = sidecar.run_task(task_type, params).await?;
    assert_eq!(task["status"], "completed", "{task_type} {params}: {task}");
    Ok(task["result"].clone())
}

/// Returns the port of a node: all nodes share one network namespace.
fn port(base: u16, node: u16) -> u16 {
    base + node * 10
}

pub fn start_seid(site: &Site, fixture: &Fixture, name: &str) -> Result<Process, Error> {
    Program::new(name, Part::Seid.ensure()?.join("bin/seid"))
        .args(["start", "--chain-id", CHAIN, "--home"])
        .arg(&fixture.home)
        .in_netns(site.netns())
        .start(site)
}

/// Queries a node; the response may be wrapped in an envelope.
pub async fn query(site: &Site, port: u16, path: &str) -> Result<Value, String> {
    let host = site.addresses().control_plane().to_string();
    let request = format!("GET /{path} HTTP/1.0\r\n\r\n");
    let response = exchange((&host, port), request.as_bytes()).await.map_err(|error| error.to_string())?;
    let body: Value =
        serde_json::from_str(&response.body).map_err(|error| format!("{error}: {response:?}"))?;
    Ok(body.get("result").cloned().unwrap_or(body))
}

fn height(status: &Value) -> u64 {
    status["sync_info"]["latest_block_height"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Runs the tasks of a node that do not depend on the others.
pub async fn prepare(sidecar: &Sidecar, name: &str) -> Result<(), Error> {
    run_completed(sidecar, "generate-identity", &json!({"chainId": CHAIN, "moniker": name})).await?;
    let balance = "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom";
    let gentx = json!({"chainId": CHAIN, "stakingAmount": "10000000usei", "accountBalance": balance});
    run_completed(sidecar, "generate-gentx", &gentx).await?;
    run_completed(sidecar, "upload-genesis-artifacts", &json!({"nodeName": name})).await?;
    Ok(())
}

/// Runs the tasks of a node that need the genesis file, in the order of a plan.
async fn configure(sidecar: &Sidecar, node: u16, hash: &str) -> Result<(), Error> {
    run_completed(sidecar, "configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
    let address = |base| format!("tcp://0.0.0.0:{}", port(base, node));
    let overrides = json!({
        "network.p2p.listen_address": address(26656),
        "network.rpc.listen_address": address(26657),
        "chain.proxy_app": format!("tcp://127.0.0.1:{}", port(26658, node)),
        "metrics.prometheus_listen_addr": format!(":{}", port(26660, node)),
    });
    run_completed(sidecar, "config-apply", &json!({"mode": "validator", "overrides": overrides})).await?;
    assert_eq!(run_completed(sidecar, "set-genesis-peers", &json!({})).await?["peers"], json!(NODES - 1));
    Ok(())
}

/// Replaces the peers' cluster DNS names, which do not resolve here, with addresses.
async fn use_local_peers(sidecar: &Sidecar, fixture: &Fixture) -> Result<(), Error> {
    let config = fs::read_to_string(fixture.home.join("config/config.toml"))
        .map_err(|source| Error::Io { what: "reading config.toml".into(), source })?;
    let line = config.lines().find_map(|line| line.trim().strip_prefix("persistent-peers = \""));
    let peers: Vec<String> = line
        .unwrap_or_default()
        .trim_end_matches('"')
        .split(',')
        .filter_map(|peer| {
            let (id, host) = peer.split_once('@')?;
            let node = host.strip_prefix("val-")?.split('-').next()?.parse::<u16>().ok()?;
            Some(format!("{id}@127.0.0.1:{}", port(26656, node)))
        })
        .collect();
    assert_eq!(peers.len(), usize::from(NODES) - 1, "{config}");
    let fields = json!({"fields": {"network.p2p.persistent_peers": peers.join(",")}});
    run_completed(sidecar, "config-reload", &fields).await?;
    let validated = sidecar.run_task("config-validate", &json!({})).await?;
    assert_eq!(validated["status"], "completed", "{validated}");
    Ok(())
}

/// A ceremony of four sidecars through a real S3 server.
pub async fn four_seid_nodes_run_the_chain_of_four_sidecars(cx: Context) -> TestResult {
    let site = cx.site()?;
    let s3 = S3::start(&site).await?;
    s3.create_bucket("genesis")?;
    let host = site.addresses().control_plane();
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let fixture = Fixture::new(&cx)?
            .env("OUTRIGGER_NODE_RPC", format!("http://{host}:{}", port(26657, number)))
            .env("SEI_GENESIS_BUCKET", "genesis")
            .env("SEI_GENESIS_REGION", S3::REGION)
            .env("AWS_ENDPOINT_URL", s3.endpoint())
            .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_ACCESS_KEY);
        let sidecar = fixture.start().await?;
        prepare(&sidecar, &format!("val-{number}")).await?;
        nodes.push((fixture, sidecar));
    }
    let names: Vec<Value> = (0..NODES).map(|number| json!({"name": format!("val-{number}")})).collect();
    let assemble =
        json!({"accountBalance": "1000000000000000000000usei", "namespace": "sei", "nodes": names});
    let assembled = run_completed(&nodes[0].1, "assemble-and-upload-genesis", &assemble).await?;
    let hash = assembled["genesisHash"].as_str().unwrap_or_default().to_owned();
    let mut seids = Vec::new();
    for (number, (fixture, sidecar)) in (0..).zip(&nodes) {
        configure(sidecar, number, &hash).await?;
        use_local_peers(sidecar, fixture).await?;
        run_completed(sidecar, "mark-ready", &json!({})).await?;
        seids.push(start_seid(&site, fixture, &format!("seid-{number}"))?);
    }
    assert_no_private_keys(&s3, &nodes).await?;
    for number in 0..NODES {
        wait::until(format!("block 5 of val-{number}"), START_TIMEOUT, || async {
            seids.iter().try_for_each(Process::check_alive).map_err(|error| error.to_string())?;
            let status = query(&site, port(26657, number), "status").await?;
            if height(&status) >= 5 { Ok(()) } else { Err(status.to_string()) }
        })
        .await?;
    }
    let mut blocks = Vec::new();
    for number in 0..NODES {
        let block = query(&site, port(26657, number), "block?height=5").await?;
        blocks.push((block["block_id"]["hash"].clone(), block["block"]["header"]["app_hash"].clone()));
    }
    assert!(blocks[0].0.is_string() && blocks.iter().all(|block| *block == blocks[0]), "{blocks:?}");
    let validators = query(&site, port(26657, 0), "validators").await?;
    assert_eq!(validators["validators"].as_array().map(Vec::len), Some(usize::from(NODES)), "{validators}");
    for (_, sidecar) in &nodes {
        let chain = sidecar.get("/v0/chain?appHashAt=4").await?.json();
        assert_eq!(chain["peers"], json!(NODES - 1), "{chain}");
        assert_eq!(chain["appHashAt"]["appHash"], blocks[0].1, "{chain}");
    }
    println!("four nodes agree on block 5: {}", blocks[0].0);
    Ok(())
}

/// Fails if an object on the server contains a private key.
async fn assert_no_private_keys(s3: &S3, nodes: &[(Fixture, Sidecar)]) -> TestResult {
    let store = AmazonS3Builder::new()
        .with_endpoint(s3.endpoint())
        .with_allow_http(true)
        .with_region(S3::REGION)
        .with_bucket_name("genesis")
        .with_access_key_id(S3::ACCESS_KEY_ID)
        .with_secret_access_key(S3::SECRET_ACCESS_KEY)
        .build()?;
    let objects: Vec<_> = store.list(None).try_collect().await?;
    assert_eq!(objects.len(), nodes.len() * 2 + 2, "{objects:?}");
    for object in objects {
        let object_response = store.get(&object.location).await?;
        let content_type = object_response
            .attributes
            .get(&object_store::Attribute::ContentType)
            .map(|value| value.to_string());
        assert_eq!(content_type.as_deref(), Some("application/json"), "{}", object.location);
        let text = String::from_utf8_lossy(&object_response.bytes().await?).into_owned();
        for (fixture, _) in nodes {
            for file in ["config/node_key.json", "config/priv_validator_key.json"] {
                let key: Value = serde_json::from_slice(&fs::read(fixture.home.join(file))?)?;
                let private = key["priv_key"]["value"].as_str().unwrap_or_default();
                assert!(!text.contains(&private[..40]), "{} contains the key of {file}", object.location);
            }
        }
    }
    Ok(())
}

/// seid starts with the config of every mode, and a chain with one validator produces blocks.
pub async fn seid_starts_with_config_of_every_mode(cx: Context) -> TestResult {
    let first = Fixture::new(&cx)?;
    let validator = first.start().await?;
    prepare(&validator, "val-0").await?;
    let assemble = json!({"accountBalance": "1usei", "namespace": "sei", "nodes": [{"name": "val-0"}]});
    run_completed(&validator, "assemble-and-upload-genesis", &assemble).await?;
    for mode in ["validator", "full", "seed", "archive"] {
        let other = Fixture::sharing_objects(&cx, &first)?;
        let (fixture, sidecar) = match mode {
            "validator" => (&first, None),
            _ => (&other, Some(other.start().await?)),
        };
        let sidecar = sidecar.as_ref().unwrap_or(&validator);
        run_completed(sidecar, "generate-identity", &json!({"chainId": CHAIN, "moniker": "val-0"})).await?;
        run_completed(sidecar, "configure-genesis", &json!({})).await?;
        run_completed(sidecar, "config-apply", &json!({"mode": mode})).await?;
        assert_starts(&fixture.site, fixture, mode).await?;
    }
    Ok(())
}

/// Waits until seid listens for peers; a validator must also produce its third block.
async fn assert_starts(site: &Arc<Site>, fixture: &Fixture, mode: &str) -> TestResult {
    let seid = start_seid(site, fixture, mode)?;
    let pid = seid.pid()?;
    wait::until(format!("{mode} to listen"), START_TIMEOUT, || async {
        seid.check_alive().map_err(|error| error.to_string())?;
        let table = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")));
        // Port 26656 in state LISTEN.
        let listens = |line: &str| line.contains(":6820 ") && line.split_whitespace().nth(3) == Some("0A");
        let found = table.iter().flatten().any(|table| table.lines().any(listens));
        if found { Ok(()) } else { Err("no listener for peers".to_owned()) }
    })
    .await?;
    if mode == "validator" {
        wait::until("the third block", START_TIMEOUT, || async {
            let status = query(site, 26657, "status").await?;
            if height(&status) >= 3 { Ok(()) } else { Err(status.to_string()) }
        })
        .await?;
    }
    seid.check_alive()?;
    seid.stop(Duration::from_secs(15))?;
    Ok(())
}
