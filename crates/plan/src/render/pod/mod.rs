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
use api::names::{annotation, container, object};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

pub(crate) use scheduling::parse_affinity;

use self::scheduling::Placement;
use super::meta::Labels;
use super::{RenderError, hash, meta, proxy_config_hash};
use crate::node::{self, DesiredTls, NodeKind, external_address, settings, sidecar_isolation};
use crate::platform::{Platform, SidecarIsolation};

/// How long seid may take to flush its state on shutdown.
const GRACE_SECONDS: i64 = 120;

/// Renders the template of the node's own pod.
pub(super) fn node_template(node: &SeiNode, platform: &Platform) -> Result<PodTemplateSpec, RenderError> {
    let (kind, tls) = (meta::kind(node)?, node::desired_tls(node));
    let keys = kind.key_secrets();
    let mut pod = common(node, kind, platform, &node.spec.image, &tls)?;
    let volumes = pod.volumes.get_or_insert_default();
    volumes.push(volumes::exporter_tmp());
    volumes.extend(volumes::keys(&keys));
    pod.containers =
        vec![seid::node_container(node, kind, platform, tls.scheme)?, exporter::container(platform)?];
    guard::check(&pod, &keys, tls.secret_name.as_deref(), platform.object_store.credentials.as_deref())?;
    let mut annotations = common_annotations(node, &pod);
    annotations.insert(annotation::PROXY_CONFIG_HASH.into(), proxy_config_hash(node, platform));
    annotations.insert(annotation::CONFIG_HASH.into(), config_hash(node, kind));
    // Replaces the pod when the issuer changes. The proxy would reload the certificate, but keep connections of the
    // previous one.
    if let Some(issuer) = &tls.issuer {
        annotations.insert(annotation::TLS_ISSUER.into(), format!("{}/{:?}", issuer.name, issuer.kind));
    }
    Ok(template(meta::labels(node), annotations, pod))
}

/// Renders the template of the bootstrap pod. It has no keys, and its sidecar has the host name and the certificate of the node's own
/// sidecar.
pub(super) fn bootstrap_template(
    node: &SeiNode,
    platform: &Platform,
) -> Result<PodTemplateSpec, RenderError> {
    let kind = meta::kind(node)?;
    let Some((image, height)) = kind.bootstrap() else {
        return Err(RenderError("the spec has no snapshot with s3.targetHeight and bootstrapImage".into()));
    };
    let tls = node::desired_tls(node);
    let mut pod = common(node, kind, platform, image, &tls)?;
    pod.containers = vec![seid::bootstrap_container(node, kind, platform, image, height)?];
    pod.hostname = Some(object::pod(meta::name(node)));
    pod.subdomain = Some(meta::name(node).into());
    pod.restart_policy = Some("Never".into());
    guard::check(
        &pod,
        &kind.key_secrets(),
        tls.secret_name.as_deref(),
        platform.object_store.credentials.as_deref(),
    )?;
    guard::check_no_signing_keys(&pod, &kind.key_secrets())?;
    Ok(template(meta::bootstrap_labels(node), common_annotations(node, &pod), pod))
}

/// Renders what both pods share. Sidecar and proxy are identical in both.
fn common(
    node: &SeiNode,
    kind: NodeKind<'_>,
    platform: &Platform,
    image: &str,
    tls: &DesiredTls,
) -> Result<PodSpec, RenderError> {
    let isolation = sidecar_isolation(node, platform);
    let mut volumes = volumes::common(node, isolation);
    volumes.extend(tls.secret_name.as_deref().map(volumes::certificate));
    let placement = Placement::new(node, kind, platform)?;
    // The order matters: the home directory, then the sidecar, then the proxy in front of it.
    let init_containers: Vec<Container> = vec![
        seid::init(node, image),
        sidecar::container(node, kind, platform, tls.scheme)?,
        proxy::container(node, platform, tls.scheme)?,
    ];
    Ok(PodSpec {
        affinity: placement.affinity,
        // Only the proxy sends requests to the API server, and it has a token of its own.
        automount_service_account_token: Some(false),
        init_containers: Some(init_containers),
        node_selector: placement.node_selector,
        priority_class_name: placement.priority_class_name,
        security_context: Some(security::pod()),
        service_account_name: Some(platform.service_account.clone()),
        // The sidecar sends signals to seid.
        share_process_namespace: (isolation == SidecarIsolation::Shared).then_some(true),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        tolerations: Some(placement.tolerations),
        topology_spread_constraints: placement.topology_spread_constraints,
        volumes: Some(volumes),
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

/// Returns the annotations of both pods, which protect them from voluntary disruption, and name the audience of their proxies and the
/// containers that get no credentials of the pod's identity.
fn common_annotations(node: &SeiNode, pod: &PodSpec) -> BTreeMap<String, String> {
    [
        (annotation::DO_NOT_DISRUPT.into(), "true".into()),
        (annotation::EKS_SKIP_CONTAINERS.into(), containers_without_identity(pod)),
        (annotation::SIDECAR_AUDIENCE.into(), meta::sidecar_audience(node)),
    ]
    .into()
}

/// Lists all containers except the sidecar. The webhook that gives a pod on EKS the credentials of its ServiceAccount adds them to every
/// container, and only the sidecar uses them. It compares whole names, without spaces.
fn containers_without_identity(pod: &PodSpec) -> String {
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let names =
        containers.map(|container| container.name.as_str()).filter(|name| *name != container::SIDECAR);
    names.collect::<Vec<_>>().join(",")
}

/// Returns a hash of everything that the configuration of seid depends on, so that a change of it changes the template.
fn config_hash(node: &SeiNode, kind: NodeKind<'_>) -> String {
    hash::hash_value(&json!([settings(node, kind), node.spec.peers, external_address(node)]))
}
