//! Names of the objects that belong to a node or a fleet. A node's StatefulSet and Service have the name of the node.

/// Returns the name of a node's pod.
#[must_use]
pub fn pod(node: &str) -> String {
    format!("{node}-0")
}

/// Returns the name of the PersistentVolumeClaim of a node's data volume, unless it is imported.
#[must_use]
pub fn data_claim(node: &str) -> String {
    format!("data-{node}")
}

/// Returns the name of the ConfigMap of a node's proxy.
#[must_use]
pub fn proxy_config(node: &str) -> String {
    format!("{node}-rbac-proxy-config")
}

/// Returns the name of a node's Certificate and its Secret, unless the spec names a Secret.
#[must_use]
pub fn sidecar_tls(node: &str) -> String {
    format!("{node}-sidecar-tls")
}

/// Returns the name of a node's NetworkPolicy.
#[must_use]
pub fn network_policy(node: &str) -> String {
    node.to_owned()
}

/// Returns the name of a validator's PodDisruptionBudget.
#[must_use]
pub fn disruption_budget(node: &str) -> String {
    node.to_owned()
}

/// Returns the name of a node's bootstrap Job.
#[must_use]
pub fn bootstrap_job(node: &str) -> String {
    format!("{node}-bootstrap")
}

/// Returns the host name of a node's pod.
#[must_use]
pub fn pod_host(node: &str, namespace: &str) -> String {
    format!("{node}-0.{node}.{namespace}.svc.cluster.local")
}

/// Returns the host name of a node's Service.
#[must_use]
pub fn service_host(node: &str, namespace: &str) -> String {
    format!("{node}.{namespace}.svc.cluster.local")
}

/// Returns the name of a node of a fleet.
#[must_use]
pub fn fleet_node(fleet: &str, ordinal: i32) -> String {
    format!("{fleet}-{ordinal}")
}

/// Returns the name of the Service that balances requests over the nodes of a fleet.
#[must_use]
pub fn internal_service(fleet: &str) -> String {
    format!("{fleet}-internal")
}

/// Returns the name of the Service of a published fleet.
#[must_use]
pub fn external_service(fleet: &str) -> String {
    format!("{fleet}-external")
}

/// Returns the name of a published fleet's route for a protocol: evm, rpc, rest or grpc.
#[must_use]
pub fn route(fleet: &str, protocol: &str) -> String {
    format!("{fleet}-{protocol}")
}

/// Start of the audiences for one node.
const SIDECAR_AUDIENCE: &str = "sidecar.sei.io/";

/// Returns the audience of the tokens that the proxy of a node accepts.
#[must_use]
pub fn sidecar_audience(node: &str, namespace: &str) -> String {
    format!("{SIDECAR_AUDIENCE}{namespace}/{node}")
}

/// Returns whether an audience is that of a single node.
#[must_use]
pub fn is_sidecar_audience(audience: &str) -> bool {
    audience.starts_with(SIDECAR_AUDIENCE)
}
