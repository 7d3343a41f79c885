//! Real seid judges what our sidecars made: GEN-06, GEN-07 and scenario 35 of the settings.

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

use crate::ground::{Ground, Sidecar, exchange};

/// How long seid may take on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

/// As many as tolerate that one is missing.
const NODES: u16 = 4;

const CHAIN: &str = "test-1";

async fn completed(sidecar: &Sidecar, kind: &str, params: &Value) -> Result<Value, Error> {
    let task = sidecar.done(kind, params).await?;
    assert_eq!(task["status"], "completed", "{kind} {params}: {task}");
    Ok(task["result"].clone())
}

/// The port of a node that shares its network with others.
fn port(usual: u16, node: u16) -> u16 {
    usual + node * 10
}

fn start(site: &Site, ground: &Ground, name: &str) -> Result<Process, Error> {
    Program::new(name, Part::Seid.ensure()?.join("bin/seid"))
        .args(["start", "--chain-id", CHAIN, "--home"])
        .arg(&ground.home)
        .in_netns(site.netns())
        .start(site)
}

/// Asks a node; the answer may be wrapped.
async fn ask(site: &Site, port: u16, question: &str) -> Result<Value, String> {
    let host = site.addresses().control_plane().to_string();
    let request = format!("GET /{question} HTTP/1.0\r\n\r\n");
    let answer = exchange((&host, port), request.as_bytes()).await.map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_str(&answer.body).map_err(|error| format!("{error}: {answer:?}"))?;
    Ok(body.get("result").cloned().unwrap_or(body))
}

fn height(status: &Value) -> u64 {
    status["sync_info"]["latest_block_height"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// One node of the ceremony: everything until the others are needed.
async fn declare(sidecar: &Sidecar, name: &str) -> Result<(), Error> {
    completed(sidecar, "generate-identity", &json!({"chainId": CHAIN, "moniker": name})).await?;
    let balance = "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom";
    let gentx = json!({"chainId": CHAIN, "stakingAmount": "10000000usei", "accountBalance": balance});
    completed(sidecar, "generate-gentx", &gentx).await?;
    completed(sidecar, "upload-genesis-artifacts", &json!({"nodeName": name})).await?;
    Ok(())
}

/// One node of the ceremony: everything since the genesis is there, as a plan has it.
async fn begin(sidecar: &Sidecar, node: u16, hash: &str) -> Result<(), Error> {
    completed(sidecar, "configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
    let address = |usual| format!("tcp://0.0.0.0:{}", port(usual, node));
    let overrides = json!({
        "network.p2p.listen_address": address(26656),
        "network.rpc.listen_address": address(26657),
        "chain.proxy_app": format!("tcp://127.0.0.1:{}", port(26658, node)),
        "metrics.prometheus_listen_addr": format!(":{}", port(26660, node)),
    });
    completed(sidecar, "config-apply", &json!({"mode": "validator", "overrides": overrides})).await?;
    assert_eq!(completed(sidecar, "set-genesis-peers", &json!({})).await?["peers"], json!(NODES - 1));
    Ok(())
}

/// Nobody resolves the names of a cluster here: the same peers by their addresses.
async fn dial_directly(sidecar: &Sidecar, ground: &Ground) -> Result<(), Error> {
    let config = fs::read_to_string(ground.home.join("config/config.toml"))
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
    completed(sidecar, "config-reload", &fields).await?;
    let validated = sidecar.done("config-validate", &json!({})).await?;
    assert_eq!(validated["status"], "completed", "{validated}");
    Ok(())
}

/// GEN-06, GEN-07, GEN-19: through the real S3 server.
pub async fn four_seids_make_blocks_with_what_four_sidecars_made(cx: Context) -> TestResult {
    let site = cx.site()?;
    let s3 = S3::on(&site).await?;
    s3.bucket("genesis")?;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let ground = Ground::new(&cx)?
            .env("SEI_GENESIS_BUCKET", "genesis")
            .env("SEI_GENESIS_REGION", S3::REGION)
            .env("AWS_ENDPOINT_URL", s3.endpoint())
            .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_ACCESS_KEY);
        let sidecar = ground.start().await?;
        declare(&sidecar, &format!("val-{number}")).await?;
        nodes.push((ground, sidecar));
    }
    let names: Vec<Value> = (0..NODES).map(|number| json!({"name": format!("val-{number}")})).collect();
    let assemble =
        json!({"accountBalance": "1000000000000000000000usei", "namespace": "sei", "nodes": names});
    let made = completed(&nodes[0].1, "assemble-and-upload-genesis", &assemble).await?;
    let hash = made["genesisHash"].as_str().unwrap_or_default().to_owned();
    let mut seids = Vec::new();
    for (number, (ground, sidecar)) in (0..).zip(&nodes) {
        begin(sidecar, number, &hash).await?;
        dial_directly(sidecar, ground).await?;
        completed(sidecar, "mark-ready", &json!({})).await?;
        seids.push(start(&site, ground, &format!("seid-{number}"))?);
    }
    nothing_private(&s3, &nodes).await?;
    for number in 0..NODES {
        wait::until(format!("block 5 of val-{number}"), STARTS_WITHIN, || async {
            seids.iter().try_for_each(Process::check_alive).map_err(|error| error.to_string())?;
            let status = ask(&site, port(26657, number), "status").await?;
            if height(&status) >= 5 { Ok(()) } else { Err(status.to_string()) }
        })
        .await?;
    }
    let mut blocks = Vec::new();
    for number in 0..NODES {
        let block = ask(&site, port(26657, number), "block?height=5").await?;
        blocks.push((block["block_id"]["hash"].clone(), block["block"]["header"]["app_hash"].clone()));
    }
    assert!(blocks[0].0.is_string() && blocks.iter().all(|block| *block == blocks[0]), "{blocks:?}");
    let validators = ask(&site, port(26657, 0), "validators").await?;
    assert_eq!(validators["validators"].as_array().map(Vec::len), Some(usize::from(NODES)), "{validators}");
    println!("four nodes agree on block 5: {}", blocks[0].0);
    Ok(())
}

/// Not one object on the server holds a private key.
async fn nothing_private(s3: &S3, nodes: &[(Ground, Sidecar)]) -> TestResult {
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
        let got = store.get(&object.location).await?;
        let kind = got.attributes.get(&object_store::Attribute::ContentType).map(|kind| kind.to_string());
        assert_eq!(kind.as_deref(), Some("application/json"), "{}", object.location);
        let text = String::from_utf8_lossy(&got.bytes().await?).into_owned();
        for (ground, _) in nodes {
            for file in ["config/node_key.json", "config/priv_validator_key.json"] {
                let key: Value = serde_json::from_slice(&fs::read(ground.home.join(file))?)?;
                let private = key["priv_key"]["value"].as_str().unwrap_or_default();
                assert!(!text.contains(&private[..40]), "{} holds the key of {file}", object.location);
            }
        }
    }
    Ok(())
}

/// Scenario 35: seid starts with what `config-apply` writes, in every mode, and the chain of one validator makes blocks.
pub async fn seid_starts_with_the_settings_of_every_mode(cx: Context) -> TestResult {
    let first = Ground::new(&cx)?;
    let validator = first.start().await?;
    declare(&validator, "val-0").await?;
    let assemble = json!({"accountBalance": "1usei", "namespace": "sei", "nodes": [{"name": "val-0"}]});
    completed(&validator, "assemble-and-upload-genesis", &assemble).await?;
    for mode in ["validator", "full", "seed", "archive"] {
        let other = Ground::beside(&cx, &first)?;
        let (ground, sidecar) = match mode {
            "validator" => (&first, None),
            _ => (&other, Some(other.start().await?)),
        };
        let sidecar = sidecar.as_ref().unwrap_or(&validator);
        completed(sidecar, "generate-identity", &json!({"chainId": CHAIN, "moniker": "val-0"})).await?;
        completed(sidecar, "configure-genesis", &json!({})).await?;
        completed(sidecar, "config-apply", &json!({"mode": mode})).await?;
        starts(&ground.site, ground, mode).await?;
    }
    Ok(())
}

/// It listens to its peers, and lives; a validator goes on to its third block.
async fn starts(site: &Arc<Site>, ground: &Ground, mode: &str) -> TestResult {
    let seid = start(site, ground, mode)?;
    let pid = seid.pid()?;
    wait::until(format!("{mode} to listen"), STARTS_WITHIN, || async {
        seid.check_alive().map_err(|error| error.to_string())?;
        let table = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")));
        // 26656, and the state of a socket that listens.
        let listens = |line: &str| line.contains(":6820 ") && line.split_whitespace().nth(3) == Some("0A");
        let found = table.iter().flatten().any(|table| table.lines().any(listens));
        if found { Ok(()) } else { Err("nobody listens to peers".to_owned()) }
    })
    .await?;
    if mode == "validator" {
        wait::until("the third block", STARTS_WITHIN, || async {
            let status = ask(site, 26657, "status").await?;
            if height(&status) >= 3 { Ok(()) } else { Err(status.to_string()) }
        })
        .await?;
    }
    seid.check_alive()?;
    seid.stop(Duration::from_secs(15))?;
    Ok(())
}
