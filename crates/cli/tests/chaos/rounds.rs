//! Rounds of one edit with one concurrent fault.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::sei_node::Scheme;
use api::sidecar_wire::{TaskType, path};
use fastrand::Rng;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use testbed::demo::halted_chain::{restart_with_unlogged_vote, wait_for_blocks_of_validator};
use testbed::demo::platform::{FULL_NODE, OPERATOR_USER, SEID, SEID_ALIAS, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::demo::sidecar_client::SidecarClient;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fault::Fault;
use crate::table::{Row, Table};

/// A fault is injected within this time after the edit, while a plan is in progress.
const FAULT_WINDOW: Duration = Duration::from_secs(6);

/// Long enough for several reconciles of converged nodes.
const STEADY_STATE: Duration = Duration::from_secs(15);

/// Edit of the full node. Each requires one new pod.
struct Edit {
    name: &'static str,
    spec: Value,
    image: &'static str,
    scheme: Scheme,
}

fn edits() -> [Edit; 3] {
    let tls = json!({ "issuerName": "sidecars", "issuerKind": "Issuer" });
    [
        Edit { name: "image", spec: json!({ "image": SEID_ALIAS }), image: SEID_ALIAS, scheme: Scheme::Http },
        Edit {
            name: "TLS on",
            spec: json!({ "sidecar": { "tls": tls } }),
            image: SEID_ALIAS,
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

/// State that faults must not change.
#[derive(Debug, PartialEq)]
struct Preserved {
    volumes: Vec<Option<String>>,
    block: String,
}

impl Preserved {
    async fn read(nodes: &SeiNodes<'_>, node: &str, height: u64) -> Result<Self, Error> {
        let claims = nodes.api::<PersistentVolumeClaim>().list(&Default::default()).await?;
        let volumes = claims.iter().map(|claim| claim.uid()).collect();
        Ok(Self { volumes, block: nodes.rpc(node).await?.block_hash(height).await? })
    }
}

/// After a fault at any moment of an edit, the nodes converge with one new pod for the edit and the same blocks as before.
pub async fn nodes_converge_under_faults(cx: Context) -> TestResult {
    let rounds = setting("OUTRIGGER_CHAOS_ROUNDS").unwrap_or(Fault::ALL.len() as u64);
    let seed = setting("OUTRIGGER_CHAOS_SEED").unwrap_or(1);
    let mut rng = Rng::with_seed(seed);
    println!("{rounds} rounds with OUTRIGGER_CHAOS_SEED={seed}");
    let nodes = SeiNodes::new(cx.platform().await?).await?;
    for file in ["validator/validator.yaml", "full-node/full-node.yaml", "tls/issuer.yaml"] {
        nodes.platform().apply_file(file)?;
    }
    for node in [VALIDATOR, FULL_NODE] {
        nodes.wait_until(node, "node to be ready", is_ready).await?;
        nodes.wait_for_new_blocks(node).await?;
    }
    let (mut table, mut remaining) = (Table::default(), Vec::new());
    for (round, edit) in (1..=rounds).zip(edits().iter().cycle()) {
        if remaining.is_empty() {
            remaining = Fault::ALL.to_vec();
            rng.shuffle(&mut remaining);
        }
        let Some(fault) = remaining.pop() else { break };
        let row = one_round(&nodes, edit, fault, &mut rng).await;
        let row = row.map_err(|error| format!("round {round}, {}, {fault}: {error}", edit.name))?;
        println!("{round:>3}  {row}");
        table.add(row);
    }
    println!("{table}");
    nodes.platform().check_alive()?;
    check_tasks_ran_once(&nodes).await?;
    check_steady_state(&nodes).await
}

/// seid's own defect, which would end a chain with one validator in one of a hundred restarts, does not end the test.
pub async fn chain_of_validator_that_refuses_to_sign_continues(cx: Context) -> TestResult {
    let nodes = SeiNodes::new(cx.platform().await?).await?;
    nodes.platform().apply_file("validator/validator.yaml")?;
    nodes.wait_until(VALIDATOR, "node to be ready", is_ready).await?;
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    restart_with_unlogged_vote(&nodes, VALIDATOR).await?;
    let is_reset = wait_for_blocks_of_validator(&nodes, VALIDATOR).await?;
    assert!(is_reset, "seid signed two votes of one round");
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    Ok(())
}

async fn one_round(nodes: &SeiNodes<'_>, edit: &Edit, fault: Fault, rng: &mut Rng) -> Result<Row, Error> {
    let height = nodes.wait_for_height(FULL_NODE, 1).await?.min(nodes.wait_for_height(VALIDATOR, 1).await?);
    let before = Preserved::read(nodes, VALIDATOR, height).await?;
    let (deletions, pod) = (nodes.pod_deletions(FULL_NODE)?, nodes.pod(FULL_NODE).await?.uid());
    nodes.edit(FULL_NODE, &edit.spec)?;
    let after = FAULT_WINDOW.mul_f64(rng.f64());
    // A random moment, not a wait for a condition.
    tokio::time::sleep(after).await;
    let begin = Instant::now();
    let target = fault.inject(nodes, rng).await?;
    nodes.wait_until(VALIDATOR, "validator to be ready again", is_ready).await?;
    let converged = nodes.wait_until(FULL_NODE, "full node to match the edit", |node, status| {
        let scheme = status.current_sidecar_tls.as_ref().map_or(Scheme::Http, |tls| tls.scheme);
        is_ready(node, status) && status.current_image.as_deref() == Some(edit.image) && scheme == edit.scheme
    });
    converged.await?;
    wait_for_blocks_of_validator(nodes, VALIDATOR).await?;
    let now = nodes.wait_for_height(FULL_NODE, 1).await?;
    nodes.wait_for_height(FULL_NODE, now + 2).await?;
    let recovered = begin.elapsed();
    for node in [VALIDATOR, FULL_NODE] {
        let now = Preserved::read(nodes, node, height).await?;
        if now != before {
            return Err(Error::Other(format!("state of {node} changed from {before:?} to {now:?}")));
        }
    }
    if nodes.pod(FULL_NODE).await?.uid() == pod {
        return Err(Error::Other("the full node still has its old pod".into()));
    }
    let cycles = nodes.pod_deletions(FULL_NODE)? - deletions;
    // A deleted pod may already replace the operator's own deletion. A restarted API server may perform a request without
    // recording it in the audit log.
    let may_be_zero = matches!(fault, Fault::PodDeleted | Fault::ApiServerRestarted);
    if cycles > 1 || (cycles == 0 && !may_be_zero) {
        return Err(Error::Other(format!("the edit took {cycles} pod cycles")));
    }
    Ok(Row { edit: edit.name, fault, target, after, recovered, cycles })
}

/// The validator was not edited: in spite of the faults, each of its tasks ran once, except `mark-ready`, which every new
/// sidecar needs.
async fn check_tasks_ran_once(nodes: &SeiNodes<'_>) -> TestResult {
    let host = nodes.address(VALIDATOR).await?;
    let (code, body) = SidecarClient::operator(nodes, VALIDATOR)?.request(host, path::TASKS, None).await?;
    assert_eq!(code, 200, "{body}");
    let tasks: Vec<Value> = serde_json::from_str(body.trim())?;
    let mut runs_by_type: BTreeMap<&str, u64> = BTreeMap::new();
    for task in &tasks {
        let runs = task["run"].as_u64().unwrap_or(1);
        *runs_by_type.entry(task["type"].as_str().unwrap_or_default()).or_default() += runs;
    }
    println!("task runs of the validator: {runs_by_type:?}");
    let repeated =
        runs_by_type.iter().find(|(kind, runs)| **kind != TaskType::MarkReady.as_str() && **runs != 1);
    assert_eq!(repeated, None, "{body}");
    assert!(runs_by_type.len() > 1, "{body}");
    Ok(())
}

/// In steady state, the operator writes nothing except its leader election lease.
async fn check_steady_state(nodes: &SeiNodes<'_>) -> TestResult {
    let mut log = nodes.plane().audit().reader_from_now()?;
    wait::throughout("steady state", STEADY_STATE, || {
        let written = log.read_new();
        async {
            let written: Vec<_> = written
                .map_err(|error| error.to_string())?
                .into_iter()
                .filter(|request| {
                    request.user == OPERATOR_USER && request.is_write() && request.resource != "leases"
                })
                .collect();
            if written.is_empty() { Ok(()) } else { Err(format!("{written:?}")) }
        }
    })
    .await?;
    Ok(())
}
