//! Who may reach which port of a node.

use api::SeiNode;
use api::names::{object, port};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::meta;
use super::service::SEID_PORTS;
use crate::platform::{Client, Platform};

/// The label that every namespace has its own name in.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Who may reach which port of a node: the chain is open to everybody, the sidecar's API to those whom the platform names. It
/// holds for the bootstrap pod too.
#[must_use]
pub fn network_policy(node: &SeiNode, platform: &Platform) -> NetworkPolicy {
    let chain = SEID_PORTS.into_iter().map(|(_, port)| port).chain([port::EXPORTER]);
    let mut ingress = vec![NetworkPolicyIngressRule { ports: Some(chain.map(to).collect()), from: None }];
    let clients: Vec<NetworkPolicyPeer> = platform.sidecar_clients.iter().map(from).collect();
    // A rule that names nobody lets everybody in.
    if !clients.is_empty() {
        let ports = Some(vec![to(port::PROXY)]);
        ingress.push(NetworkPolicyIngressRule { ports, from: Some(clients) });
    }
    NetworkPolicy {
        metadata: meta::of(node, object::network_policy(meta::name(node)), meta::labels(node)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(meta::matching(meta::selector(node))),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(ingress),
            egress: None,
        }),
    }
}

fn to(port: i32) -> NetworkPolicyPort {
    NetworkPolicyPort { port: Some(IntOrString::Int(port)), ..NetworkPolicyPort::default() }
}

fn from(client: &Client) -> NetworkPolicyPeer {
    let namespace = [(NAMESPACE_NAME.to_owned(), client.namespace.clone())].into();
    NetworkPolicyPeer {
        namespace_selector: Some(meta::matching(namespace)),
        pod_selector: (!client.labels.is_empty()).then(|| meta::matching(client.labels.clone())),
        ip_block: None,
    }
}
