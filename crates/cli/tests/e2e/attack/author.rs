//! Threat (d): someone who may create SeiNodes in one namespace, on a platform with `--strict-references`.

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::demo::platform::{CHAIN, NAMESPACE, SEID, VALIDATOR};
use testbed::demo::sei_nodes::SeiNodes;
use testbed::{Context, Error, TestResult};

use crate::fixture;

fn manifest(name: &str, spec: &Value) -> String {
    let mut node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "chainId": CHAIN, "image": SEID },
    });
    if let (Some(target), Some(fields)) = (node["spec"].as_object_mut(), spec.as_object()) {
        target.extend(fields.clone());
    }
    node.to_string()
}

/// Creates a node that uses an object of another one, and waits until it is refused with a sentence that names the label.
async fn until_refused(nodes: &SeiNodes<'_>, name: &str, spec: &Value) -> Result<(), Error> {
    kubectl::apply(nodes.plane(), &manifest(name, spec))?;
    let label = format!("sei.io/node={name}");
    let is_refused = |_: &SeiNode, status: &SeiNodeStatus| {
        status
            .conditions
            .iter()
            .any(|condition| condition.status == "False" && condition.message.contains(&label))
    };
    let node = nodes.wait_until(name, "reference to be refused", is_refused).await?;
    let sets = nodes.api::<StatefulSet>();
    assert!(sets.get_opt(name).await?.is_none(), "nothing is created for {name}");
    let conditions = node.status.unwrap_or_default().conditions;
    let message =
        conditions.into_iter().find(|condition| condition.message.contains(&label)).map(|one| one.message);
    println!("refused: {name}: {}", message.unwrap_or_default());
    nodes.api::<SeiNode>().delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Creating a node gives no access to Secrets and volumes of others.
pub async fn node_author_cannot_use_objects_of_other_nodes(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let keys = json!({ "validator": {
        "signingKey": { "secret": { "secretName": "validator-signing-key" } },
        "nodeKey": { "secret": { "secretName": "validator-node-key" } },
    } });
    until_refused(&nodes, "thief-of-keys", &keys).await?;
    let tls = json!({ "fullNode": {}, "sidecar": { "tls": { "secretName": "object-store" } } });
    until_refused(&nodes, "thief-of-secret", &tls).await?;
    let claim =
        json!({ "fullNode": {}, "dataVolume": { "import": { "pvcName": format!("data-{VALIDATOR}") } } });
    until_refused(&nodes, "thief-of-volume", &claim).await?;
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    Ok(())
}

/// Labels of a pod cannot make it a member of another node.
pub async fn node_author_cannot_impersonate_a_node(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let name = "impostor";
    let spec = json!({ "fullNode": {}, "paused": true, "podLabels": { "sei.io/node": VALIDATOR } });
    match kubectl::apply(nodes.plane(), &manifest(name, &spec)) {
        Err(error) => println!("refused at admission: {error}"),
        Ok(()) => {
            nodes.edit(name, &json!({ "paused": false }))?;
            let pod = testbed::harness::wait::until(
                "the template of the impostor",
                testbed::demo::sei_nodes::TIMEOUT,
                || async {
                    let set =
                        nodes.api::<StatefulSet>().get(name).await.map_err(|error| error.to_string())?;
                    let metadata = set.spec.and_then(|spec| spec.template.metadata);
                    metadata.ok_or_else(|| "no metadata".to_owned())
                },
            )
            .await?;
            assert_eq!(pod.labels.unwrap_or_default()["sei.io/node"], name);
            println!("refused: the label sei.io/node of its pods stays {name}");
            nodes.api::<SeiNode>().delete(name, &DeleteParams::default()).await?;
        }
    }
    assert_eq!(nodes.pod(VALIDATOR).await?.labels()["sei.io/node"], VALIDATOR);
    Ok(())
}
