//! The Service of a node.

use api::SeiNode;
use api::names::{port, port_name};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use super::meta::{self, Labels};

/// The names and ports of seid.
pub(super) const SEID_PORTS: [(&str, i32); 7] = [
    (port_name::EVM_RPC, port::EVM_RPC),
    (port_name::EVM_WS, port::EVM_WS),
    (port_name::GRPC, port::GRPC),
    (port_name::REST, port::REST),
    (port_name::P2P, port::P2P),
    (port_name::RPC, port::RPC),
    (port_name::METRICS, port::METRICS),
];

/// The name and port of the proxy.
pub(super) const PROXY_PORT: (&str, i32) = (port_name::PROXY, port::PROXY);

/// Renders the headless Service of a node. The ports are the same for every kind, and never include that of the sidecar
/// itself.
#[must_use]
pub fn service(node: &SeiNode) -> Service {
    let ports = SEID_PORTS.into_iter().chain([PROXY_PORT]);
    headless(node, meta::labels(node), meta::selector(node), ports)
}

/// Renders a headless Service. It publishes addresses of pods that are not ready: the operator must reach a pod to make
/// it ready.
pub(super) fn headless(
    node: &SeiNode,
    labels: Labels,
    selector: Labels,
    ports: impl Iterator<Item = (&'static str, i32)>,
) -> Service {
    Service {
        metadata: meta::object_meta(node, meta::name(node).into(), labels),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(selector),
            ports: Some(ports.map(service_port).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn service_port((name, port): (&str, i32)) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port,
        // Without it a mesh or gateway assumes HTTP/1.1.
        app_protocol: (name == port_name::GRPC).then(|| "kubernetes.io/h2c".into()),
        ..ServicePort::default()
    }
}
