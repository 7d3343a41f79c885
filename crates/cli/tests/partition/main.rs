//! A chain of four validators with real seid, one of which is cut off from the others. It takes minutes, so that it is run by
//! `make partition` and not by `make test`.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes libtest tests only")]

mod nodes;
mod status_writes;

use std::time::{Duration, Instant};

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use kube::ResourceExt as _;
use testbed::demo::sei_nodes::{SeiNodes, condition, is_ready};
use testbed::faults::partition::Partition;
use testbed::{Context, Error, TestResult};

use crate::nodes::{CUT_OFF, FOLLOWER, MAJORITY, create_chain};
use crate::status_writes::StatusWrites;

testbed::suite![validator_cut_off_from_its_chain_is_reported];

/// How long the chain is observed in steady state.
const STEADY_STATE: Duration = Duration::from_secs(5 * 60);

/// The longest that a halted validator may be reported as in sync.
const REPORTED_WITHIN: Duration = Duration::from_secs(2 * 60);

/// The validator keeps a peer, the full node that is cut off with it, so that the reason is not the lack of peers.
async fn validator_cut_off_from_its_chain_is_reported(cx: Context) -> TestResult {
    let nodes = SeiNodes::new(cx.platform().await?).await?;
    create_chain(&nodes).await?;
    no_status_is_written_while_blocks_are_produced(&nodes).await?;
    let pods = (nodes.pod(CUT_OFF).await?.uid(), nodes.pod(FOLLOWER).await?.uid());
    let begin = Instant::now();
    let mut majority = Vec::new();
    for node in MAJORITY {
        majority.push(nodes.address(node).await?);
    }
    let mut partitions = Vec::new();
    for node in [CUT_OFF, FOLLOWER] {
        partitions.push(Partition::start(&nodes.seid_container(node).await?, &majority)?);
    }
    let height = nodes.rpc(CUT_OFF).await?.height().await?;
    let node = nodes.wait_until(CUT_OFF, "halt to be reported", is_halted).await?;
    let took = begin.elapsed();
    let message = message_of(&node, "ChainSynced");
    println!("halted at about block {height}, reported after {:.0} s: {message}", took.as_secs_f64());
    assert!(took < REPORTED_WITHIN, "reported after {took:?}");
    let status = node.status.unwrap_or_default();
    assert_eq!(condition(&status, "Ready").0, "False", "{status:?}");
    for node in MAJORITY {
        nodes.wait_for_height(node, height + 10).await?;
        let status = nodes.api::<SeiNode>().get(node).await?.status.unwrap_or_default();
        assert_eq!(condition(&status, "ChainSynced"), ("True", "InSync"), "{node}: {status:?}");
    }
    drop(partitions);
    let begin = Instant::now();
    nodes.wait_until(CUT_OFF, "validator to follow its chain again", is_ready).await?;
    println!("in sync {:.0} s after the partition was healed", begin.elapsed().as_secs_f64());
    let after = (nodes.pod(CUT_OFF).await?.uid(), nodes.pod(FOLLOWER).await?.uid());
    assert_eq!(after, pods, "no pod was replaced");
    nodes.platform().check_alive()?;
    Ok(())
}

fn is_halted(_: &SeiNode, status: &SeiNodeStatus) -> bool {
    condition(status, "ChainSynced") == ("False", "Halted")
}

fn message_of(node: &SeiNode, type_: &str) -> String {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.filter(|condition| condition.type_ == type_);
    found.next().map(|condition| condition.message.clone()).unwrap_or_default()
}

async fn no_status_is_written_while_blocks_are_produced(nodes: &SeiNodes<'_>) -> Result<(), Error> {
    let (before, writes) = (nodes.rpc(CUT_OFF).await?.height().await?, StatusWrites::record(nodes)?);
    let writes = writes.throughout(STEADY_STATE).await?;
    let blocks = nodes.rpc(CUT_OFF).await?.height().await? - before;
    println!(
        "steady state: {blocks} blocks and {writes} writes of the operator in {} s",
        STEADY_STATE.as_secs()
    );
    assert!(blocks > 100 && writes == 0, "{blocks} blocks, {writes} writes");
    Ok(())
}
