//! Where pods run, and what may stop them.

use api::SeiNode;
use api::names::annotation::ALLOW_EVICTION;
use k8s_openapi::api::core::v1::PodSpec;
use plan::Platform;
use plan::render;
use serde_json::{Value, json};

use crate::{cases, node};

fn pod(node: &SeiNode, platform: &Platform) -> PodSpec {
    render::stateful_set(node, platform).unwrap().spec.unwrap().template.spec.unwrap()
}

#[test]
fn node_pool_label_can_be_changed_or_switched_off() {
    let mut platform = cases::platform();
    platform.nodepool_label = Some("example.com/pool".into());
    let affinity = json!(pod(&node("full"), &platform).affinity);
    let terms =
        &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let requirement = json!({ "key": "example.com/pool", "operator": "In", "values": ["pool-node"] });
    assert_eq!(terms, &json!([{ "matchExpressions": [requirement] }]));
    platform.nodepool_label = None;
    let pod = pod(&node("full"), &platform);
    assert_eq!(pod.affinity, None);
    assert_eq!(pod.tolerations.unwrap().len(), 1, "the taint of the pool is tolerated");
}

#[test]
fn every_node_selector_term_requires_the_node_pool() {
    let affinity = json!(pod(&node("scheduling"), &cases::platform()).affinity);
    let terms =
        &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let terms = terms.as_array().unwrap();
    assert_eq!(terms.len(), 2);
    for term in terms {
        assert_eq!(term["matchExpressions"][0]["key"], "karpenter.sh/nodepool");
    }
    assert_eq!(terms[0]["matchExpressions"][1]["key"], "disk");
    assert_eq!(terms[1]["matchFields"][0]["key"], "metadata.name");
}

/// An empty term matches no machine. With the requirement of the pool it would match the whole pool.
#[test]
fn empty_node_selector_term_stays_empty() {
    let mut node = node("scheduling");
    let terms = json!({ "nodeSelectorTerms": [{}] });
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
    node.spec.scheduling.as_mut().unwrap().affinity = Some(affinity.clone());
    assert_eq!(json!(pod(&node, &cases::platform()).affinity), affinity);
}

#[test]
fn validators_prefer_machines_without_validators_of_their_chain() {
    for case in ["validator", "scheduling-validator"] {
        let pod = pod(&node(case), &cases::platform());
        let anti = json!(pod.affinity.unwrap().pod_anti_affinity);
        let term = &anti["preferredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["weight"], 100, "{case}");
        assert_eq!(term["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname");
        assert_eq!(term["podAffinityTerm"]["namespaceSelector"], json!({}), "all namespaces");
        let selected = &term["podAffinityTerm"]["labelSelector"]["matchLabels"];
        let labels = render::stateful_set(&node(case), &cases::platform()).unwrap().spec.unwrap().template;
        let labels = json!(labels.metadata.unwrap().labels);
        for (name, value) in selected.as_object().unwrap() {
            assert_eq!(&labels[name], value, "{case}: pods of validators have {name}");
        }
    }
    let required = |case: &str| {
        let anti = json!(pod(&node(case), &cases::platform()).affinity.unwrap().pod_anti_affinity);
        anti["requiredDuringSchedulingIgnoredDuringExecution"].clone()
    };
    assert_eq!(required("validator"), Value::Null, "a small cluster can run them");
    assert!(required("scheduling-validator").is_array(), "the affinity of the spec is kept");
}

#[test]
fn default_request_is_kept_without_request_or_limit_in_spec() {
    let pod = pod(&node("resources"), &cases::platform());
    let seid = pod.containers.iter().find(|one| one.name == "seid").unwrap();
    assert_eq!(
        json!(seid.resources),
        json!({ "limits": { "memory": "64Gi" }, "requests": { "cpu": "8", "ephemeral-storage": "2560Mi" } })
    );
    let mut node = node("full");
    node.spec.resources =
        serde_json::from_value(json!({ "limits": { "ephemeral-storage": "1Gi" } })).unwrap();
    let pod = self::pod(&node, &cases::platform());
    let seid = pod.containers.iter().find(|one| one.name == "seid").unwrap();
    assert_eq!(json!(seid.resources)["requests"], json!({ "cpu": "4", "memory": "32Gi" }));
}

/// The selector must not include the bootstrap pod, and a validator that is not ready must be evictable once it is allowed.
#[test]
fn eviction_is_blocked_unless_the_annotation_allows_it() {
    let mut node = node("validator");
    let budget = |node: &SeiNode| json!(render::disruption_budget(node))["spec"].clone();
    let selector = json!({ "matchLabels": { "sei.io/node": "tide-3", "sei.io/role": "validator" } });
    assert_eq!(budget(&node), json!({ "maxUnavailable": 0, "selector": selector }));
    node.metadata.annotations = Some([(ALLOW_EVICTION.to_owned(), "true".to_owned())].into());
    assert_eq!(
        budget(&node),
        json!({ "maxUnavailable": 1, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow" })
    );
}
