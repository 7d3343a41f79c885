//! The pods of a node: its own, and the one that brings it to a height.

mod exporter;
mod guard;
mod parts;
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

use super::meta::Labels;
use super::{Refusal, hash, meta, proxy_config_hash};
use crate::node::{self, Kind, external_address, settings};
use crate::platform::Platform;

/// The longest time that the bootstrap's seid gets to write down what it has.
const BOOTSTRAP_GRACE_SECONDS: i64 = 120;

/// The node's own pod.
pub(super) fn of_the_node(node: &SeiNode, platform: &Platform) -> Result<PodTemplateSpec, Refusal> {
    let (kind, tls) = (meta::kind(node)?, node::tls(node));
    let keys = kind.keys();
    let keyring = keys.operator_keyring.as_ref();
    let mut pod = common(node, kind, platform, &node.spec.image, tls.scheme, keyring)?;
    pod.volumes.get_or_insert_default().extend(tls.secret_name.as_deref().map(volumes::certificate));
    pod.volumes.get_or_insert_default().extend(volumes::keys(&keys));
    pod.containers =
        vec![seid::of_the_node(node, kind, platform, tls.scheme)?, exporter::container(platform)?];
    if let Some(keyring) = keyring {
        guard::keyring_stays_with_the_sidecar(&pod, keyring)?;
    }
    let mut annotations = undisturbed();
    annotations.insert(annotation::PROXY_CONFIG_HASH.into(), proxy_config_hash(node, platform));
    annotations.insert(annotation::CONFIG_HASH.into(), config_hash(node, kind));
    // A proxy takes up another certificate by itself, and keeps the connections that it has by the old one.
    if let (Some(issuer), Some(kind)) = (&tls.issuer_name, &tls.issuer_kind) {
        annotations.insert(annotation::TLS_ISSUER.into(), format!("{issuer}/{kind:?}"));
    }
    Ok(template(meta::labels(node), annotations, pod))
}

/// The pod that brings a node to a height. It has no keys and no certificate, and its sidecar the same host name as the node's.
pub(super) fn of_the_bootstrap(node: &SeiNode, platform: &Platform) -> Result<PodTemplateSpec, Refusal> {
    let kind = meta::kind(node)?;
    let Some((image, height)) = kind.bootstrap() else {
        return Err(Refusal("the spec names no bootstrapImage and height of a snapshot in S3".into()));
    };
    let mut pod = common(node, kind, platform, image, Scheme::Http, None)?;
    pod.containers = vec![seid::of_the_bootstrap(node, kind, platform, image, height)?];
    pod.hostname = Some(object::pod(meta::name(node)));
    pod.subdomain = Some(meta::name(node).into());
    pod.restart_policy = Some("Never".into());
    pod.termination_grace_period_seconds = Some(BOOTSTRAP_GRACE_SECONDS);
    guard::cannot_sign(&pod, &kind.keys())?;
    Ok(template(meta::bootstrap_labels(node), undisturbed(), pod))
}

/// What both pods have. Sidecar and proxy are the same in both: what works in one works in the other.
fn common(
    node: &SeiNode,
    kind: Kind<'_>,
    platform: &Platform,
    image: &str,
    scheme: Scheme,
    keyring: Option<&KeyringSecret>,
) -> Result<PodSpec, Refusal> {
    let pool = kind.nodepool(platform);
    // The order matters: a home, then the sidecar, then who guards it.
    let first: Vec<Container> = vec![
        seid::init(node, image),
        sidecar::container(node, platform, scheme, keyring)?,
        proxy::container(node, platform, scheme)?,
    ];
    Ok(PodSpec {
        affinity: Some(scheduling::affinity(pool)),
        // Said aloud, whatever the account says: the proxy asks the API server.
        automount_service_account_token: Some(true),
        init_containers: Some(first),
        security_context: Some(security::pod()),
        service_account_name: Some(platform.service_account.clone()),
        // The sidecar signals seid.
        share_process_namespace: Some(true),
        tolerations: Some(vec![scheduling::toleration(pool, platform)]),
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

/// Annotations of a pod that is not moved to save money.
fn undisturbed() -> BTreeMap<String, String> {
    [(annotation::DO_NOT_DISRUPT.into(), "true".into())].into()
}

/// A hash over everything that seid's configuration is made from: a change of it is a change of the template.
fn config_hash(node: &SeiNode, kind: Kind<'_>) -> String {
    hash::of(&json!([settings(node, kind), node.spec.peers, external_address(node)]))
}
