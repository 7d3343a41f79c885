//! Nodes with a real seid.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::names::container;
use api::sei_node::{SeiNodeStatus, SidecarIsolation};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::platform::{FULL_NODE, SEID_ALIAS, VALIDATOR, manifest};
use testbed::demo::sei_nodes::{SeiNodes, TIMEOUT, condition, is_ready};
use testbed::demo::sidecar_client::SidecarClient;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{self, since};

/// How long a node in steady state is observed.
const STEADY_STATE: Duration = Duration::from_secs(20);

/// Keys come from Secrets, the genesis file from the object store.
pub async fn validator_produces_blocks(cx: Context) -> TestResult {
    let nodes = SeiNodes::new(cx.platform().await?).await?;
    let begin = Instant::now();
    nodes.platform().apply_file("validator/validator.yaml")?;
    nodes.wait_until(VALIDATOR, "validator to be ready", is_ready).await?;
    let running = since(begin);
    println!("validator: {} status writes until Ready", nodes.status_writes(VALIDATOR)?);
    nodes.wait_for_height(VALIDATOR, 1).await?;
    let first = since(begin);
    let height = nodes.wait_for_new_blocks(VALIDATOR).await?;
    println!(
        "validator: Running {running} and first block {first} after kubectl apply, now at height {height}"
    );
    nodes.platform().check_alive()?;
    Ok(())
}

/// Peers are discovered by label.
pub async fn full_node_follows_chain(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    let height = nodes.wait_for_new_blocks(FULL_NODE).await?;
    let (full_node, validator) = (nodes.rpc(FULL_NODE).await?, nodes.rpc(VALIDATOR).await?);
    assert_eq!(
        full_node.block_hash(height).await?,
        validator.block_hash(height).await?,
        "block {height} differs"
    );
    let node = nodes.wait_until(FULL_NODE, "full node to be in sync", is_in_sync).await?;
    let version = node.metadata.resource_version;
    wait::throughout("no status write while blocks are produced", STEADY_STATE, || async {
        let now = nodes.api::<SeiNode>().get(FULL_NODE).await.map_err(|error| error.to_string())?;
        if now.metadata.resource_version == version { Ok(()) } else { Err(format!("{:?}", now.status)) }
    })
    .await?;
    let later = full_node.height().await?;
    assert!(later > height, "no block in {STEADY_STATE:?}");
    println!("chain in sync: {} blocks and no status write in {} s", later - height, STEADY_STATE.as_secs());
    Ok(())
}

fn is_in_sync(_: &SeiNode, status: &SeiNodeStatus) -> bool {
    condition(status, "ChainSynced") == ("True", "InSync")
}

/// Restarts seid with a task of the sidecar: by a signal if the containers share their processes, else through the control directory.
async fn restart_seid(nodes: &SeiNodes<'_>, name: &str) -> TestResult {
    let before = nodes.seid_container(name).await?;
    let operator = SidecarClient::operator(nodes, name)?;
    let params = json!({ "forPod": nodes.pod(name).await?.uid() });
    operator.run_task(nodes, name, "restart-seid", &params).await?;
    wait::until("another container of seid", TIMEOUT, || async {
        let now = nodes.seid_container(name).await?;
        if now == before { Err(Error::Other(format!("{now} still runs"))) } else { Ok(()) }
    })
    .await?;
    nodes.wait_for_new_blocks(name).await?;
    Ok(())
}

/// The shared mode is for sidecars of upstream: the sidecar listens on a port, and signals seid. An edit isolates the node with one pod
/// cycle.
pub async fn shared_node_restarts_seid_and_becomes_isolated(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let name = "shared-node";
    let example = manifest("full-node/full-node.yaml")?.replace("name: full-node", &format!("name: {name}"));
    kubectl::apply(nodes.plane(), &format!("{example}  sidecar: {{ isolation: Shared }}\n"))?;
    for (isolation, is_shared, deletions) in
        [(SidecarIsolation::Shared, true, 0), (SidecarIsolation::Isolated, false, 1)]
    {
        nodes.edit(name, &json!({ "sidecar": { "isolation": isolation } }))?;
        let node = nodes.wait_until(name, "node to be ready", is_ready).await?;
        assert_eq!(node.status.and_then(|status| status.current_sidecar_isolation), Some(isolation));
        let pod = nodes.pod(name).await?.spec.unwrap_or_default();
        assert_eq!(pod.share_process_namespace.unwrap_or_default(), is_shared);
        let sidecar = pod.init_containers.into_iter().flatten().find(|one| one.name == container::SIDECAR);
        let command = format!("{:?}", sidecar.map(|one| (one.command, one.args, one.env)));
        assert_eq!(command.contains("unix:"), !is_shared, "{command}");
        restart_seid(&nodes, name).await?;
        assert_eq!(nodes.pod_deletions(name)?, deletions, "{isolation:?}");
        println!("{isolation:?} node: seid restarted by a task, {deletions} pod cycles");
    }
    nodes.api::<SeiNode>().delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// A mistyped key is rejected before the pod is touched.
pub async fn wrong_override_keeps_validator_running(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let (pod, begin) = (nodes.pod(VALIDATOR).await?.uid(), Instant::now());
    nodes.edit(VALIDATOR, &json!({ "overrides": { "evm.http_prot": "8545" } }))?;
    let is_rejected =
        |_: &SeiNode, status: &SeiNodeStatus| condition(status, "SpecApplied") == ("False", "SpecInvalid");
    nodes.wait_until(VALIDATOR, "override to be rejected", is_rejected).await?;
    println!("wrong override: rejected after {}", since(begin));
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    nodes.edit(VALIDATOR, &json!({ "overrides": { "evm.http_prot": null } }))?;
    nodes.wait_until(VALIDATOR, "validator to be ready", is_ready).await?;
    assert_eq!(nodes.pod(VALIDATOR).await?.uid(), pod, "the pod is the same");
    Ok(())
}

/// The image is reported within a minute, and the next edit is applied although the previous one never completed.
pub async fn unpullable_image_is_reported_and_recovers(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    let missing = "outrigger.dev/testbed-seid:missing";
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "image": missing }))?;
    let is_reported = |_: &SeiNode, status: &SeiNodeStatus| {
        let waiting = status.waiting_for.as_ref().and_then(|waiting| waiting.message.clone());
        waiting.is_some_and(|message| message.contains(missing) && message.contains("Image"))
    };
    let node = nodes.wait_until(FULL_NODE, "missing image to be reported", is_reported).await?;
    assert!(begin.elapsed() < Duration::from_secs(60), "reported only after {}", since(begin));
    let waiting = node.status.and_then(|status| status.waiting_for?.message).unwrap_or_default();
    println!("missing image: reported after {}: {waiting}", since(begin));
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "image": SEID_ALIAS }))?;
    let node = nodes.wait_until(FULL_NODE, "full node to recover", is_ready).await?;
    assert_eq!(node.status.and_then(|status| status.current_image).as_deref(), Some(SEID_ALIAS));
    println!("next edit: Running after {}", since(begin));
    nodes.wait_for_new_blocks(FULL_NODE).await?;
    Ok(())
}

/// Pod addresses are not known in advance, so validation cannot reject this. seid prints the error in one line, followed by
/// its usage.
pub async fn seid_startup_error_is_reported_and_recovers(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    let (key, begin) = ("network.rpc.listen_address", Instant::now());
    nodes.edit(FULL_NODE, &json!({ "overrides": { key: "tcp://198.51.100.1:26657" } }))?;
    let is_reported = |node: &SeiNode, status: &SeiNodeStatus| {
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        ready.is_some_and(|ready| {
            ready.reason == "PodFailing"
                && ready.observed_generation == node.metadata.generation
                && ready
                    .message
                    .contains("Error: error starting node: failed to listen on 198.51.100.1:26657")
        })
    };
    let node = nodes.wait_until(FULL_NODE, "seid error to be reported", is_reported).await?;
    let conditions = node.status.unwrap_or_default().conditions;
    let message = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready")
        .map(|condition| condition.message);
    println!("seid startup error: reported after {}: {}", since(begin), message.unwrap_or_default());
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "overrides": { key: null } }))?;
    nodes.wait_until(FULL_NODE, "full node to recover", is_ready).await?;
    println!("next edit: Running after {}", since(begin));
    nodes.wait_for_new_blocks(FULL_NODE).await?;
    Ok(())
}
