//! The Services of a fleet. They select nodes by the label of the fleet only: a selector with a revision would empty them during a
//! rollout.

use std::collections::BTreeMap;

use api::SeiNodeDeployment;
use api::names::{annotation, label, object, port, port_name};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use crate::node::NodeKind;

/// Renders the Service that balances requests over the nodes of a fleet.
#[must_use]
pub fn internal_service(fleet: &SeiNodeDeployment) -> Service {
    let ports = [(port_name::RPC, port::RPC), ("evm-http", port::EVM_RPC), (port_name::REST, port::REST)];
    service(fleet, object::internal_service(name(fleet)), &ports)
}

/// Renders the Service behind the routes of a published fleet.
#[must_use]
pub fn external_service(fleet: &SeiNodeDeployment) -> Service {
    let kind = NodeKind::from_spec(&fleet.spec.template.spec);
    // A validator must not serve queries of the public.
    let ports: &[(&str, i32)] = if kind.is_some_and(NodeKind::can_sign) {
        &[(port_name::P2P, port::P2P)]
    } else {
        &[
            (port_name::EVM_RPC, port::EVM_RPC),
            (port_name::EVM_WS, port::EVM_WS),
            (port_name::GRPC, port::GRPC),
            (port_name::REST, port::REST),
            (port_name::P2P, port::P2P),
            (port_name::RPC, port::RPC),
        ]
    };
    service(fleet, object::external_service(name(fleet)), ports)
}

fn service(fleet: &SeiNodeDeployment, service_name: String, ports: &[(&str, i32)]) -> Service {
    let labels: BTreeMap<String, String> = [(label::FLEET.to_owned(), name(fleet).to_owned())].into();
    let managed_by = (annotation::MANAGED_BY.to_owned(), annotation::MANAGED_BY_FLEET.to_owned());
    Service {
        metadata: ObjectMeta {
            name: Some(service_name),
            namespace: fleet.metadata.namespace.clone(),
            labels: Some(labels.clone()),
            annotations: Some([managed_by].into()),
            owner_references: fleet.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(labels),
            ports: Some(ports.iter().map(|(name, port)| service_port(name, *port)).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn service_port(name: &str, port: i32) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port,
        // Without it a mesh or gateway assumes HTTP/1.1.
        app_protocol: (name == port_name::GRPC).then(|| "kubernetes.io/h2c".into()),
        ..ServicePort::default()
    }
}

fn name(fleet: &SeiNodeDeployment) -> &str {
    fleet.metadata.name.as_deref().unwrap_or_default()
}
