//! The NetworkPolicy of a node.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use plan::{Platform, render};
use serde_json::json;

use crate::{cases, node};

#[test]
fn platform_without_clients_blocks_the_sidecar() {
    let node = node("full");
    let mut platform = cases::platform();
    platform.sidecar_clients.clear();
    let rules = render::network_policy(&node, &platform).spec.unwrap().ingress.unwrap();
    // A rule with an empty list of sources would allow all.
    assert_eq!(rules.len(), 1);
    let ports: Vec<_> = rules[0].ports.clone().unwrap().into_iter().map(|port| port.port.unwrap()).collect();
    assert_eq!(ports, [8545, 8546, 9090, 1317, 26656, 26657, 26660, 9300].map(IntOrString::Int));
}

#[test]
fn sidecar_is_reachable_by_clients_only_and_seid_by_all() {
    let node = node("full");
    let rules = render::network_policy(&node, &cases::platform()).spec.unwrap().ingress.unwrap();
    assert_eq!(rules.len(), 2);
    assert_eq!(rules[0].from, None);
    let to: Vec<_> = rules[1].ports.iter().flatten().map(|port| port.port.clone().unwrap()).collect();
    assert_eq!(to, [IntOrString::Int(8443)]);
    let from = serde_json::to_value(&rules[1].from).unwrap();
    let namespace = |name: &str| json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
    assert_eq!(
        from,
        json!([
            { "namespaceSelector": namespace("outrigger"), "podSelector": { "matchLabels": { "app": "operator" } } },
            { "namespaceSelector": namespace("tools") },
        ])
    );
}

#[test]
fn egress_is_limited_to_configured_destinations() {
    let node = node("full");
    let limited = render::network_policy(&node, &cases::platform()).spec.unwrap();
    let platform = Platform { node_egress: Vec::new(), ..cases::platform() };
    let open = render::network_policy(&node, &platform).spec.unwrap();
    assert_eq!((open.policy_types, open.egress), (Some(vec!["Ingress".into()]), None));
    assert_eq!(limited.policy_types, Some(vec!["Ingress".into(), "Egress".into()]));
    assert_eq!(
        json!(limited.egress),
        json!([
            { "ports": [{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }] },
            { "ports": [{ "port": 26656 }] },
            { "to": [{ "podSelector": { "matchExpressions": [{ "key": "sei.io/node", "operator": "Exists" }] } }] },
            { "to": [{ "ipBlock": { "cidr": "10.96.0.1/32" } }], "ports": [{ "port": 443 }] },
            { "to": [{ "ipBlock": { "cidr": "fd00::/8" } }] },
        ])
    );
}
