//! Names of the objects that belong to a node or a fleet. A node's StatefulSet and Service have its own name.

/// Name of a node's only pod.
#[must_use]
pub fn pod(node: &str) -> String {
    format!("{node}-0")
}

/// Name of the claim of a node's data volume, unless it was imported.
#[must_use]
pub fn data_claim(node: &str) -> String {
    format!("data-{node}")
}

/// Name of the ConfigMap of a node's proxy.
#[must_use]
pub fn proxy_config(node: &str) -> String {
    format!("{node}-rbac-proxy-config")
}

/// Name of a node's certificate and of its Secret, unless one was given.
#[must_use]
pub fn sidecar_tls(node: &str) -> String {
    format!("{node}-sidecar-tls")
}

/// Name of the policy that says who may reach a node.
#[must_use]
pub fn network_policy(node: &str) -> String {
    node.to_owned()
}

/// Name of a node's bootstrap Job.
#[must_use]
pub fn bootstrap_job(node: &str) -> String {
    format!("{node}-bootstrap")
}

/// Host name of a node's pod.
#[must_use]
pub fn pod_host(node: &str, namespace: &str) -> String {
    format!("{node}-0.{node}.{namespace}.svc.cluster.local")
}

/// Host name of a node's Service.
#[must_use]
pub fn service_host(node: &str, namespace: &str) -> String {
    format!("{node}.{namespace}.svc.cluster.local")
}

/// Name of a fleet's node.
#[must_use]
pub fn fleet_node(fleet: &str, ordinal: i32) -> String {
    format!("{fleet}-{ordinal}")
}

/// Name of the Service that spreads requests over a fleet's nodes.
#[must_use]
pub fn internal_service(fleet: &str) -> String {
    format!("{fleet}-internal")
}

/// Name of the Service that a published fleet is reached through.
#[must_use]
pub fn external_service(fleet: &str) -> String {
    format!("{fleet}-external")
}

/// Name of a published fleet's route for one protocol: evm, rpc, rest or grpc.
#[must_use]
pub fn route(fleet: &str, protocol: &str) -> String {
    format!("{fleet}-{protocol}")
}
