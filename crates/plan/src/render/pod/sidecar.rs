//! The container of the sidecar.

use api::SeiNode;
use api::names::{container, env, path, port_name, volume};
use api::sei_node::Scheme;
use api::sidecar_wire;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Probe, SecretKeySelector};

use super::builders::{env as variable, mount, port};
use super::probe::{self, Timing};
use super::security;
use crate::node::{NodeKind, sidecar_image, sidecar_isolation, sidecar_port, sidecar_resources};
use crate::platform::{ObjectStore, Platform, ResultExport, SidecarIsolation};
use crate::render::{RenderError, resources};

/// Renders the sidecar. It gets no keys of the operator account: nothing signs with them.
pub(super) fn container(
    node: &SeiNode,
    kind: NodeKind<'_>,
    platform: &Platform,
    scheme: Scheme,
) -> Result<Container, RenderError> {
    let image = sidecar_image(node, platform);
    if image.is_empty() {
        return Err(RenderError(
            "no sidecar image: set spec.sidecar.image, or configure a default in the operator".into(),
        ));
    }
    let mut mounts = vec![mount(volume::DATA, path::DATA), mount(volume::SIDECAR_TMP, path::TMP)];
    if sidecar_isolation(node, platform) == SidecarIsolation::Isolated {
        mounts.push(mount(volume::SIDECAR_SOCKET, path::SIDECAR_SOCKET_DIR));
        mounts.push(mount(volume::SEID_CONTROL, path::SEID_CONTROL));
    }
    Ok(Container {
        name: container::SIDECAR.into(),
        image: Some(image.into()),
        restart_policy: Some("Always".into()),
        command: Some(vec!["seictl".into(), "serve".into()]),
        env: Some(variables(node, kind, platform)),
        ports: Some(vec![port((port_name::SIDECAR, sidecar_port(node)))]),
        volume_mounts: Some(mounts),
        resources: resources::requirements("sidecar.resources", sidecar_resources(node))?,
        liveness_probe: Some(liveness(scheme)),
        security_context: Some(security::hardened()),
        ..Container::default()
    })
}

/// Returns the liveness probe, which restarts a hanging sidecar. It goes through the proxy: the sidecar listens on
/// loopback, and not every sidecar image has a program for an exec probe. The proxy starts later and may itself be at
/// fault: delay and threshold are so long that the proxy's own probes have restarted it several times by then. A
/// startup probe would deadlock: the proxy starts after it succeeds, and it needs the proxy.
fn liveness(scheme: Scheme) -> Probe {
    let timing = Timing { delay: Some(300), period: 10, failures: 30 };
    probe::sidecar(sidecar_wire::path::LIVEZ, scheme, timing)
}

fn variables(node: &SeiNode, kind: NodeKind<'_>, platform: &Platform) -> Vec<EnvVar> {
    use env::sidecar;
    let (genesis, snapshots) = (&platform.genesis_bucket, &platform.snapshot_bucket);
    let mut variables = vec![
        variable(sidecar::CHAIN_ID, &node.spec.chain_id),
        variable(sidecar::PORT, sidecar_port(node).to_string()),
        variable(sidecar::HOME, path::DATA),
        variable(sidecar::GENESIS_BUCKET, &genesis.name),
        variable(sidecar::GENESIS_REGION, &genesis.region),
        variable(sidecar::SNAPSHOT_BUCKET, &snapshots.name),
        variable(sidecar::SNAPSHOT_REGION, &snapshots.region),
        variable(sidecar::AUTHN_MODE, sidecar::AUTHN_MODE_TRUSTED_HEADER),
    ];
    variables.extend(result_export(platform.result_export.as_ref()));
    variables.extend(object_store(&platform.object_store));
    if sidecar_isolation(node, platform) == SidecarIsolation::Isolated {
        variables.push(variable(sidecar::LISTEN, format!("unix:{}", path::SIDECAR_SOCKET)));
        variables.push(variable(sidecar::SEID_CONTROL_DIR, path::SEID_CONTROL));
        variables.push(variable(sidecar::PRIVATE_DIR, path::TMP));
        if kind.snapshot_generation().publish {
            variables.push(variable(sidecar::PUBLISH_SNAPSHOTS, "true"));
        }
    }
    variables
}

/// Returns the variables of the destination of exported block results.
fn result_export(export: Option<&ResultExport>) -> Vec<EnvVar> {
    use env::sidecar::{RESULT_EXPORT_BUCKET, RESULT_EXPORT_PREFIX, RESULT_EXPORT_REGION};
    let Some(ResultExport { bucket, prefix }) = export else { return Vec::new() };
    let prefix = prefix.as_ref().map(|prefix| variable(RESULT_EXPORT_PREFIX, prefix));
    let bucket =
        [variable(RESULT_EXPORT_BUCKET, &bucket.name), variable(RESULT_EXPORT_REGION, &bucket.region)];
    bucket.into_iter().chain(prefix).collect()
}

/// Returns the variables of an object store. There are none for AWS S3 with the pod's identity, which they would
/// disable.
fn object_store(store: &ObjectStore) -> Vec<EnvVar> {
    use env::sidecar::{S3_ENDPOINT, S3_KEY, S3_KEY_ID, S3_SESSION_TOKEN, S3_VIRTUAL_HOST};
    let mut variables = Vec::new();
    if let Some(endpoint) = &store.endpoint {
        variables.push(variable(S3_ENDPOINT, &endpoint.url));
        variables.push(variable(S3_VIRTUAL_HOST, (!endpoint.is_path_style).to_string()));
    }
    if let Some(secret) = &store.credentials {
        let from = |name, is_optional| secret_variable(name, secret, name, is_optional);
        variables.extend([from(S3_KEY_ID, false), from(S3_KEY, false), from(S3_SESSION_TOKEN, true)]);
    }
    variables
}

fn secret_variable(name: &str, secret: &str, key: &str, is_optional: bool) -> EnvVar {
    let selector =
        SecretKeySelector { name: secret.into(), key: key.into(), optional: is_optional.then_some(true) };
    EnvVar {
        name: name.into(),
        value: None,
        value_from: Some(EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() }),
    }
}
