//! The container of the sidecar.

use api::SeiNode;
use api::names::{container, env, path, port_name, volume};
use api::sei_node::{KeyringSecret, Scheme};
use api::sidecar_wire;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Probe, SecretKeySelector};

use super::builders::{env as variable, mount, port, read_only};
use super::probe::{self, Timing};
use super::security;
use crate::node::{sidecar_image, sidecar_port, sidecar_resources};
use crate::platform::{ObjectStore, Platform};
use crate::render::{RenderError, resources};

/// The keyring backend of a mounted keyring.
const KEYRING_BACKEND: &str = "file";

/// Renders the sidecar, with the keyring of the operator account if there is one.
pub(super) fn container(
    node: &SeiNode,
    platform: &Platform,
    scheme: Scheme,
    keyring: Option<&KeyringSecret>,
) -> Result<Container, RenderError> {
    let image = sidecar_image(node, platform);
    if image.is_empty() {
        return Err(RenderError(
            "no sidecar image: set spec.sidecar.image, or configure a default in the operator".into(),
        ));
    }
    let mut mounts = vec![mount(volume::DATA, path::DATA), mount(volume::SIDECAR_TMP, path::TMP)];
    if keyring.is_some() {
        mounts.push(read_only(volume::OPERATOR_KEYRING, path::OPERATOR_KEYRING));
    }
    Ok(Container {
        name: container::SIDECAR.into(),
        image: Some(image.into()),
        restart_policy: Some("Always".into()),
        command: Some(vec!["seictl".into(), "serve".into()]),
        env: Some(variables(node, platform, keyring)),
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

fn variables(node: &SeiNode, platform: &Platform, keyring: Option<&KeyringSecret>) -> Vec<EnvVar> {
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
    variables.extend(object_store(&platform.object_store));
    if let Some(keyring) = keyring {
        // Without these the system keyring is used. The directory is the parent of the mount, whose name follows from
        // the backend.
        variables.push(variable(sidecar::KEYRING_BACKEND, KEYRING_BACKEND));
        variables.push(variable(sidecar::KEYRING_DIR, path::DATA));
        variables.push(passphrase(keyring));
    }
    variables
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

fn passphrase(keyring: &KeyringSecret) -> EnvVar {
    let source = &keyring.passphrase_secret_ref;
    secret_variable(env::sidecar::KEYRING_PASSPHRASE, &source.secret_name, &source.key, false)
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
