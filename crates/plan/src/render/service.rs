//! The Service of a node.

use api::SeiNode;
use api::names::{port, port_name};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use super::meta::{self, Labels};

/// The ports of seid, with their names.
pub(super) const SEID_PORTS: [(&str, i32); 7] = [
    (port_name::EVM_RPC, port::EVM_RPC),
    (port_name::EVM_WS, port::EVM_WS),
    (port_name::GRPC, port::GRPC),
    (port_name::REST, port::REST),
    (port_name::P2P, port::P2P),
    (port_name::RPC, port::RPC),
    (port_name::METRICS, port::METRICS),
];

/// The proxy's port, with its name.
pub(super) const PROXY_PORT: (&str, i32) = (port_name::PROXY, port::PROXY);

/// The headless Service of a node. The same ports for every kind, and never that of the sidecar itself.
#[must_use]
pub fn service(node: &SeiNode) -> Service {
    let ports = SEID_PORTS.into_iter().chain([PROXY_PORT]);
    headless(node, meta::labels(node), meta::selector(node), ports)
}

/// A Service that gives every selected pod a host name, also one that is not ready: it has to be reached to become so.
pub(super) fn headless(
    node: &SeiNode,
    labels: Labels,
    selector: Labels,
    ports: impl Iterator<Item = (&'static str, i32)>,
) -> Service {
    Service {
        metadata: meta::of(node, meta::name(node).into(), labels),
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
        // Else a mesh or a gateway takes it for HTTP/1.1.
        app_protocol: (name == port_name::GRPC).then(|| "kubernetes.io/h2c".into()),
        ..ServicePort::default()
    }
}
