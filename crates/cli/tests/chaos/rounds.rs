//! Rounds of an edit and of something that goes wrong meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::sei_node::Scheme;
use api::sidecar_wire::{TaskType, path};
use fastrand::Rng;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use testbed::demo::caller::Caller;
use testbed::demo::platform::{FULL_NODE, OPERATOR_USER, SEID, SEID_AGAIN, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fault::Fault;
use crate::table::{Row, Table};

/// What goes wrong does so within this time after the edit, while a plan is under way.
const MOMENTS: Duration = Duration::from_secs(6);

/// Long enough for several looks at nodes at rest.
const A_WHILE: Duration = Duration::from_secs(15);

/// An edit of the full node, each of which takes one new pod.
struct Edit {
    name: &'static str,
    spec: Value,
    image: &'static str,
    scheme: Scheme,
}

fn edits() -> [Edit; 3] {
    let tls = json!({ "issuerName": "sidecars", "issuerKind": "Issuer" });
    [
        Edit { name: "image", spec: json!({ "image": SEID_AGAIN }), image: SEID_AGAIN, scheme: Scheme::Http },
        Edit {
            name: "TLS on",
            spec: json!({ "sidecar": { "tls": tls } }),
            image: SEID_AGAIN,
            scheme: Scheme::Https,
        },
        Edit {
            name: "image and TLS off",
            spec: json!({ "image": SEID, "sidecar": { "tls": null } }),
            image: SEID,
            scheme: Scheme::Http,
        },
    ]
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What must be the same after everything.
#[derive(Debug, PartialEq)]
struct Kept {
    volumes: Vec<Option<String>>,
    block: String,
}

impl Kept {
    async fn of(nodes: &SeiNodes<'_>, node: &str, height: u64) -> Result<Self, Error> {
        let claims = nodes.api::<PersistentVolumeClaim>().list(&Default::default()).await?;
        let volumes = claims.iter().map(|claim| claim.uid()).collect();
        Ok(Self { volumes, block: nodes.rpc(node).await?.block(height).await? })
    }
}

/// Nothing that happens to a cluster at any moment of an edit keeps nodes from converging, with one new pod for the edit and the
/// blocks of before.
pub async fn nodes_converge_whatever_breaks_while_they_are_edited(cx: Context) -> TestResult {
    let rounds = setting("OUTRIGGER_CHAOS_ROUNDS").unwrap_or(Fault::ALL.len() as u64);
    let seed = setting("OUTRIGGER_CHAOS_SEED").unwrap_or(1);
    let mut chance = Rng::with_seed(seed);
    println!("{rounds} rounds of OUTRIGGER_CHAOS_SEED={seed}");
    let nodes = SeiNodes::on(cx.platform().await?).await?;
    for file in ["validator/validator.yaml", "full-node/full-node.yaml", "tls/issuer.yaml"] {
        nodes.platform().apply_file(file)?;
    }
    for node in [VALIDATOR, FULL_NODE] {
        nodes.until(node, "it runs", is_ready).await?;
        nodes.grows(node).await?;
    }
    let (mut table, mut left) = (Table::default(), Vec::new());
    for (round, edit) in (1..=rounds).zip(edits().iter().cycle()) {
        if left.is_empty() {
            left = Fault::ALL.to_vec();
            chance.shuffle(&mut left);
        }
        let Some(fault) = left.pop() else { break };
        let row = one_round(&nodes, edit, fault, &mut chance).await;
        let row = row.map_err(|error| format!("round {round}, {}, {fault}: {error}", edit.name))?;
        println!("{round:>3}  {row}");
        table.add(row);
    }
    println!("{table}");
    nodes.platform().check_alive()?;
    tasks_were_done_once(&nodes).await?;
    at_rest(&nodes).await
}

async fn one_round(nodes: &SeiNodes<'_>, edit: &Edit, fault: Fault, chance: &mut Rng) -> Result<Row, Error> {
    let height = nodes.height(FULL_NODE, 1).await?.min(nodes.height(VALIDATOR, 1).await?);
    let before = Kept::of(nodes, VALIDATOR, height).await?;
    let (deletions, pod) = (nodes.pod_deletions(FULL_NODE)?, nodes.pod(FULL_NODE).await?.uid());
    nodes.edit(FULL_NODE, &edit.spec)?;
    let after = MOMENTS.mul_f64(chance.f64());
    // The moment is what chance chooses; nothing is waited for.
    tokio::time::sleep(after).await;
    let begin = Instant::now();
    let whom = fault.happen(nodes, chance).await?;
    nodes.until(VALIDATOR, "it runs again", is_ready).await?;
    let wanted = nodes.until(FULL_NODE, "it runs as edited", |node, status| {
        let scheme = status.current_sidecar_tls.as_ref().map_or(Scheme::Http, |tls| tls.scheme);
        is_ready(node, status) && status.current_image.as_deref() == Some(edit.image) && scheme == edit.scheme
    });
    wanted.await?;
    for node in [VALIDATOR, FULL_NODE] {
        let now = nodes.height(node, 1).await?;
        nodes.height(node, now + 2).await?;
    }
    let recovered = begin.elapsed();
    for node in [VALIDATOR, FULL_NODE] {
        let now = Kept::of(nodes, node, height).await?;
        if now != before {
            return Err(Error::Refused(format!("{node} had {before:?} and has {now:?}")));
        }
    }
    if nodes.pod(FULL_NODE).await?.uid() == pod {
        return Err(Error::Refused("the full node has the pod of before the edit".into()));
    }
    let cycles = nodes.pod_deletions(FULL_NODE)? - deletions;
    // Whoever deletes the pod while the edit is under way has done that for the operator; an API server that ends may do what it
    // does not tell.
    let may_be_less = matches!(fault, Fault::PodDeleted | Fault::ApiServerRestarted);
    if cycles > 1 || (cycles == 0 && !may_be_less) {
        return Err(Error::Refused(format!("the edit took {cycles} pods")));
    }
    Ok(Row { edit: edit.name, fault, whom, after, recovered, cycles })
}

/// Nobody edited the validator: whatever died meanwhile, each of its tasks was done once, but for the one that every new sidecar
/// needs.
async fn tasks_were_done_once(nodes: &SeiNodes<'_>) -> TestResult {
    let host = nodes.address(VALIDATOR).await?;
    let (code, body) = Caller::operator(nodes)?.ask(host, path::TASKS, None).await?;
    assert_eq!(code, 200, "{body}");
    let tasks: Vec<Value> = serde_json::from_str(body.trim())?;
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for task in &tasks {
        let runs = task["run"].as_u64().unwrap_or(1);
        *times.entry(task["type"].as_str().unwrap_or_default()).or_default() += runs;
    }
    println!("tasks of the validator, and how often each was done: {times:?}");
    let twice = times.iter().find(|(kind, runs)| **kind != TaskType::MarkReady.as_str() && **runs != 1);
    assert_eq!(twice, None, "{body}");
    assert!(times.len() > 1, "{body}");
    Ok(())
}

/// Then the operator writes nothing but that it leads.
async fn at_rest(nodes: &SeiNodes<'_>) -> TestResult {
    let mut log = nodes.plane().audit().reader_from_now()?;
    wait::throughout("rest", A_WHILE, || {
        let written = log.news();
        async {
            let written: Vec<_> = written
                .map_err(|error| error.to_string())?
                .into_iter()
                .filter(|one| one.user == OPERATOR_USER && one.is_write() && one.resource != "leases")
                .collect();
            if written.is_empty() { Ok(()) } else { Err(format!("{written:?}")) }
        }
    })
    .await?;
    Ok(())
}
