//! The pods of a node: its own, and the bootstrap pod.

mod builders;
mod exporter;
mod guard;
mod probe;
mod proxy;
mod scheduling;
mod security;
mod seid;
mod sidecar;
mod volumes;

use std::collections::BTreeMap;

use api::SeiNode;
use api::names::{annotation, object};
use api::sei_node::{KeyringSecret, Scheme};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

pub(crate) use scheduling::parse_affinity;

use self::scheduling::Placement;
use super::meta::Labels;
use super::{RenderError, hash, meta, proxy_config_hash};
use crate::node::{self, NodeKind, external_address, settings};
use crate::platform::Platform;

/// How long seid may take to flush its state on shutdown.
const GRACE_SECONDS: i64 = 120;

/// Renders the template of the node's own pod.
pub(super) fn node_template(node: &SeiNode, platform: &Platform) -> Result<PodTemplateSpec, RenderError> {
    let (kind, tls) = (meta::kind(node)?, node::desired_tls(node));
    let keys = kind.key_secrets();
    let keyring = keys.operator_keyring.as_ref();
    let mut pod = common(node, kind, platform, &node.spec.image, tls.scheme, keyring)?;
    pod.volumes.get_or_insert_default().extend(tls.secret_name.as_deref().map(volumes::certificate));
    pod.volumes.get_or_insert_default().extend(volumes::keys(&keys));
    pod.containers =
        vec![seid::node_container(node, kind, platform, tls.scheme)?, exporter::container(platform)?];
    if let Some(keyring) = keyring {
        guard::check_keyring_access(&pod, keyring)?;
    }
    let mut annotations = do_not_disrupt();
    annotations.insert(annotation::PROXY_CONFIG_HASH.into(), proxy_config_hash(node, platform));
    annotations.insert(annotation::CONFIG_HASH.into(), config_hash(node, kind));
    // Replaces the pod when the issuer changes. The proxy would reload the certificate, but keep connections of the
    // previous one.
    if let Some(issuer) = &tls.issuer {
        annotations.insert(annotation::TLS_ISSUER.into(), format!("{}/{:?}", issuer.name, issuer.kind));
    }
    Ok(template(meta::labels(node), annotations, pod))
}

/// Renders the template of the bootstrap pod. It has no keys and no certificate, and its sidecar has the host name of
/// the node's own sidecar.
pub(super) fn bootstrap_template(
    node: &SeiNode,
    platform: &Platform,
) -> Result<PodTemplateSpec, RenderError> {
    let kind = meta::kind(node)?;
    let Some((image, height)) = kind.bootstrap() else {
        return Err(RenderError("the spec has no snapshot with s3.targetHeight and bootstrapImage".into()));
    };
    let mut pod = common(node, kind, platform, image, Scheme::Http, None)?;
    pod.containers = vec![seid::bootstrap_container(node, kind, platform, image, height)?];
    pod.hostname = Some(object::pod(meta::name(node)));
    pod.subdomain = Some(meta::name(node).into());
    pod.restart_policy = Some("Never".into());
    guard::check_no_signing_keys(&pod, &kind.key_secrets())?;
    Ok(template(meta::bootstrap_labels(node), do_not_disrupt(), pod))
}

/// Renders what both pods share. Sidecar and proxy are identical in both.
fn common(
    node: &SeiNode,
    kind: NodeKind<'_>,
    platform: &Platform,
    image: &str,
    scheme: Scheme,
    keyring: Option<&KeyringSecret>,
) -> Result<PodSpec, RenderError> {
    let placement = Placement::new(node, kind, platform)?;
    // The order matters: the home directory, then the sidecar, then the proxy in front of it.
    let init_containers: Vec<Container> = vec![
        seid::init(node, image),
        sidecar::container(node, platform, scheme, keyring)?,
        proxy::container(node, platform, scheme)?,
    ];
    Ok(PodSpec {
        affinity: placement.affinity,
        // Explicit, whatever the ServiceAccount says: the proxy sends reviews to the API server.
        automount_service_account_token: Some(true),
        init_containers: Some(init_containers),
        node_selector: placement.node_selector,
        priority_class_name: placement.priority_class_name,
        security_context: Some(security::pod()),
        service_account_name: Some(platform.service_account.clone()),
        // The sidecar sends signals to seid.
        share_process_namespace: Some(true),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        tolerations: Some(placement.tolerations),
        topology_spread_constraints: placement.topology_spread_constraints,
        volumes: Some(volumes::common(node)),
        ..PodSpec::default()
    })
}

fn template(labels: Labels, annotations: BTreeMap<String, String>, pod: PodSpec) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod),
    }
}

/// Returns the annotations that protect a pod from voluntary disruption.
fn do_not_disrupt() -> BTreeMap<String, String> {
    [(annotation::DO_NOT_DISRUPT.into(), "true".into())].into()
}

/// Returns a hash of everything that the configuration of seid depends on, so that a change of it changes the template.
fn config_hash(node: &SeiNode, kind: NodeKind<'_>) -> String {
    hash::hash_value(&json!([settings(node, kind), node.spec.peers, external_address(node)]))
}
