//! Volumes of pods.

use api::SeiNode;
use api::names::{data_key, object, volume};
use api::sei_node::{ObservedKeys, SidecarIsolation};
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, ConfigMapVolumeSource, DownwardAPIProjection, DownwardAPIVolumeFile,
    EmptyDirVolumeSource, KeyToPath, ObjectFieldSelector, PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use crate::render::{claim, meta};

/// Readable by the owner only.
const OWNER_READ_ONLY: i32 = 0o400;

/// How long a token of the proxy is valid. The kubelet renews it at 80 %. The same as that of automounted tokens.
const TOKEN_SECONDS: i64 = 3607;

/// Returns the volumes of both pods.
pub(super) fn common(node: &SeiNode, isolation: SidecarIsolation) -> Vec<Volume> {
    let claim = PersistentVolumeClaimVolumeSource { claim_name: claim::name(node), read_only: None };
    let config = ConfigMapVolumeSource {
        name: object::proxy_config(meta::name(node)),
        ..ConfigMapVolumeSource::default()
    };
    let mut volumes = vec![
        Volume { persistent_volume_claim: Some(claim), ..named(volume::DATA) },
        empty_dir(volume::SIDECAR_TMP),
        Volume { config_map: Some(config), ..named(volume::PROXY_CONFIG) },
        Volume { projected: Some(proxy_token()), ..named(volume::PROXY_TOKEN) },
    ];
    if isolation == SidecarIsolation::Isolated {
        volumes.extend([empty_dir(volume::SIDECAR_SOCKET), empty_dir(volume::SEID_CONTROL)]);
    }
    volumes
}

/// Returns what clients of the API server need, in the files of an automounted token.
fn proxy_token() -> ProjectedVolumeSource {
    let token = ServiceAccountTokenProjection {
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".into(),
        audience: None,
    };
    let authority = ConfigMapProjection {
        name: "kube-root-ca.crt".into(),
        items: Some(vec![item("ca.crt")]),
        optional: None,
    };
    let namespace = DownwardAPIVolumeFile {
        path: "namespace".into(),
        field_ref: Some(ObjectFieldSelector { api_version: None, field_path: "metadata.namespace".into() }),
        ..DownwardAPIVolumeFile::default()
    };
    let namespace = DownwardAPIProjection { items: Some(vec![namespace]) };
    let sources = vec![
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
        VolumeProjection { config_map: Some(authority), ..VolumeProjection::default() },
        VolumeProjection { downward_api: Some(namespace), ..VolumeProjection::default() },
    ];
    ProjectedVolumeSource { sources: Some(sources), default_mode: None }
}

/// Returns the scratch space of the exporter.
pub(super) fn exporter_tmp() -> Volume {
    empty_dir(volume::EXPORTER_TMP)
}

/// Returns the volume with the certificate of the proxy.
pub(super) fn certificate(secret_name: &str) -> Volume {
    secret(volume::SIDECAR_TLS, secret_name, None)
}

/// Returns the volumes with the keys of a validator. The keyring is not among them: nothing reads it.
pub(super) fn keys(keys: &ObservedKeys) -> Vec<Volume> {
    let signing_key =
        keys.signing_key.as_deref().map(|name| (volume::SIGNING_KEY, name, data_key::SIGNING_KEY));
    let node_key = keys.node_key.as_deref().map(|name| (volume::NODE_KEY, name, data_key::NODE_KEY));
    let files = [signing_key, node_key].into_iter().flatten();
    files.map(|(volume, name, key)| secret(volume, name, Some(key))).collect()
}

/// Returns a volume with one key of a Secret, or all of them.
fn secret(volume: &str, name: &str, key: Option<&str>) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(name.into()),
        default_mode: Some(OWNER_READ_ONLY),
        items: key.map(|key| vec![item(key)]),
        optional: None,
    };
    Volume { secret: Some(source), ..named(volume) }
}

fn item(key: &str) -> KeyToPath {
    KeyToPath { key: key.into(), path: key.into(), mode: None }
}

fn empty_dir(name: &str) -> Volume {
    Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..named(name) }
}

fn named(name: &str) -> Volume {
    Volume { name: name.into(), ..Volume::default() }
}
