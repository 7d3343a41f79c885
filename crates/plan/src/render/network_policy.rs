//! The NetworkPolicy of a node.

use api::SeiNode;
use api::names::{label, object, port};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::meta;
use super::service::SEID_PORTS;
use crate::platform::{EgressTarget, Platform, SidecarClient};

/// The label of every namespace that holds its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The port of name servers.
const DNS_PORT: i32 = 53;

/// Renders the NetworkPolicy of a node: the ports of seid are open, the sidecar API only to the clients of the
/// platform. Egress is limited if the platform names destinations. It also covers the bootstrap pod.
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
    let egress = (!platform.node_egress.is_empty()).then(|| egress(&platform.node_egress));
    let types = ["Ingress"].into_iter().chain(egress.is_some().then_some("Egress"));
    NetworkPolicy {
        metadata: meta::object_meta(node, object::network_policy(meta::name(node)), meta::labels(node)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(meta::match_labels(meta::selector(node))),
            policy_types: Some(types.map(str::to_owned).collect()),
            ingress: Some(ingress),
            egress,
        }),
    }
}

/// Returns what the pods of a node may connect to: name servers, peers, the nodes of the namespace, and the configured destinations.
fn egress(targets: &[EgressTarget]) -> Vec<NetworkPolicyEgressRule> {
    let dns = ["UDP", "TCP"]
        .map(|protocol| NetworkPolicyPort { protocol: Some(protocol.into()), ..policy_port(DNS_PORT) });
    let nodes = LabelSelectorRequirement { key: label::NODE.into(), operator: "Exists".into(), values: None };
    let nodes = LabelSelector { match_expressions: Some(vec![nodes]), match_labels: None };
    let nodes = NetworkPolicyPeer { pod_selector: Some(nodes), ..NetworkPolicyPeer::default() };
    let target = |target: &EgressTarget| {
        let block = IPBlock { cidr: target.cidr.clone(), except: None };
        NetworkPolicyEgressRule {
            to: Some(vec![NetworkPolicyPeer { ip_block: Some(block), ..NetworkPolicyPeer::default() }]),
            ports: target.port.map(|port| vec![policy_port(port.into())]),
        }
    };
    let mut rules = vec![
        NetworkPolicyEgressRule { ports: Some(dns.into()), to: None },
        NetworkPolicyEgressRule { ports: Some(vec![policy_port(port::P2P)]), to: None },
        NetworkPolicyEgressRule { ports: None, to: Some(vec![nodes]) },
    ];
    rules.extend(targets.iter().map(target));
    rules
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
