//! The nodes of the chain.

use serde_json::{Value, json};
use testbed::Error;
use testbed::cluster::kubectl;
use testbed::demo::new_chain::{NewChain, Validator};
use testbed::demo::platform::{GENESIS_BUCKET, SEID};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};

/// Validators with three quarters of the voting power.
pub const MAJORITY: [&str; 3] = ["north", "east", "south"];

/// The validator that is cut off.
pub const CUT_OFF: &str = "west";

/// A full node whose only configured peer is [`CUT_OFF`].
pub const FOLLOWER: &str = "west-follower";

const CHAIN: &str = "compass-1";

/// Creates the chain and waits until all nodes are ready and produce blocks.
pub async fn create_chain(nodes: &SeiNodes<'_>) -> Result<(), Error> {
    let names: Vec<&str> = MAJORITY.into_iter().chain([CUT_OFF]).collect();
    let chain = NewChain::new(CHAIN, &names)?;
    let s3 = nodes.platform().s3();
    s3.put(GENESIS_BUCKET, &format!("{CHAIN}/genesis.json"), chain.genesis().to_owned()).await?;
    kubectl::apply(nodes.plane(), &chain.secrets(nodes.namespace()))?;
    let mut items: Vec<Value> = chain.validators().iter().map(|one| validator(nodes, &chain, one)).collect();
    let cut_off = chain.validators().iter().filter(|validator| validator.name() == CUT_OFF);
    items.push(sei_node(nodes, FOLLOWER, cut_off, &json!({ "fullNode": {} })));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    kubectl::apply(nodes.plane(), &list.to_string())?;
    for node in names.into_iter().chain([FOLLOWER]) {
        nodes.wait_until(node, "node to be ready", is_ready).await?;
        nodes.wait_for_new_blocks(node).await?;
    }
    Ok(())
}

fn validator(nodes: &SeiNodes<'_>, chain: &NewChain, validator: &Validator) -> Value {
    let name = validator.name();
    let secret = |kind: &str| json!({ "secret": { "secretName": format!("{name}-{kind}") } });
    let mode = json!({ "validator": { "signingKey": secret("signing-key"), "nodeKey": secret("node-key") } });
    sei_node(nodes, name, chain.validators().iter().filter(|peer| peer.name() != name), &mode)
}

fn sei_node<'a>(
    nodes: &SeiNodes<'_>,
    name: &str,
    peers: impl Iterator<Item = &'a Validator>,
    mode: &Value,
) -> Value {
    let peers: Vec<String> = peers.map(|peer| peer.peer_address(nodes.namespace())).collect();
    let mut node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
        "metadata": { "name": name, "namespace": nodes.namespace() },
        "spec": {
            "chainId": CHAIN, "image": SEID,
            // Limits the chain to about two blocks per second.
            "overrides": { "consensus.unsafe_commit_timeout_override": "500ms" },
            "peers": [{ "static": { "addresses": peers } }],
        },
    });
    if let (Some(spec), Some(mode)) = (node["spec"].as_object_mut(), mode.as_object()) {
        spec.extend(mode.clone());
    }
    node
}
