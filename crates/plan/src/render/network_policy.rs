//! The NetworkPolicy of a node.

use api::SeiNode;
use api::names::{object, port};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::meta;
use super::service::SEID_PORTS;
use crate::platform::{Platform, SidecarClient};

/// The label of every namespace that holds its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Renders the NetworkPolicy of a node: the ports of seid are open, the sidecar API only to the clients of the
/// platform. It also covers the bootstrap pod.
#[must_use]
pub fn network_policy(node: &SeiNode, platform: &Platform) -> NetworkPolicy {
    let open_ports = SEID_PORTS.into_iter().map(|(_, port)| port).chain([port::EXPORTER]);
    let mut ingress =
        vec![NetworkPolicyIngressRule { ports: Some(open_ports.map(policy_port).collect()), from: None }];
    let clients: Vec<NetworkPolicyPeer> = platform.sidecar_clients.iter().map(policy_peer).collect();
    // A rule with an empty `from` allows every source.
    if !clients.is_empty() {
        let ports = Some(vec![policy_port(port::PROXY)]);
        ingress.push(NetworkPolicyIngressRule { ports, from: Some(clients) });
    }
    NetworkPolicy {
        metadata: meta::object_meta(node, object::network_policy(meta::name(node)), meta::labels(node)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(meta::match_labels(meta::selector(node))),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(ingress),
            egress: None,
        }),
    }
}

fn policy_port(port: i32) -> NetworkPolicyPort {
    NetworkPolicyPort { port: Some(IntOrString::Int(port)), ..NetworkPolicyPort::default() }
}

fn policy_peer(client: &SidecarClient) -> NetworkPolicyPeer {
    let namespace = [(NAMESPACE_NAME.to_owned(), client.namespace.clone())].into();
    NetworkPolicyPeer {
        namespace_selector: Some(meta::match_labels(namespace)),
        pod_selector: (!client.labels.is_empty()).then(|| meta::match_labels(client.labels.clone())),
        ip_block: None,
    }
}
