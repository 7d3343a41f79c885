//! Volumes of pods.

use api::SeiNode;
use api::names::{data_key, object, volume};
use api::sei_node::ObservedKeys;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, PersistentVolumeClaimVolumeSource,
    SecretVolumeSource, Volume,
};

use crate::render::{claim, meta};

/// Readable by the owner only.
const OWNER_READ_ONLY: i32 = 0o400;

/// Returns the volumes of both pods.
pub(super) fn common(node: &SeiNode) -> Vec<Volume> {
    let claim = PersistentVolumeClaimVolumeSource { claim_name: claim::name(node), read_only: None };
    let config = ConfigMapVolumeSource {
        name: object::proxy_config(meta::name(node)),
        ..ConfigMapVolumeSource::default()
    };
    vec![
        Volume { persistent_volume_claim: Some(claim), ..named(volume::DATA) },
        Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..named(volume::SIDECAR_TMP) },
        Volume { config_map: Some(config), ..named(volume::PROXY_CONFIG) },
    ]
}

/// Returns the volume with the certificate of the proxy.
pub(super) fn certificate(secret_name: &str) -> Volume {
    secret(volume::SIDECAR_TLS, secret_name, None)
}

/// Returns the volumes with the keys of a validator.
pub(super) fn keys(keys: &ObservedKeys) -> Vec<Volume> {
    let signing_key =
        keys.signing_key.as_deref().map(|name| (volume::SIGNING_KEY, name, data_key::SIGNING_KEY));
    let node_key = keys.node_key.as_deref().map(|name| (volume::NODE_KEY, name, data_key::NODE_KEY));
    let files = [signing_key, node_key].into_iter().flatten();
    let keyring = keys.operator_keyring.as_ref();
    files
        .map(|(volume, name, key)| secret(volume, name, Some(key)))
        .chain(keyring.map(|keyring| secret(volume::OPERATOR_KEYRING, &keyring.secret_name, None)))
        .collect()
}

/// Returns a volume with one key of a Secret, or all of them.
fn secret(volume: &str, name: &str, key: Option<&str>) -> Volume {
    let item = |key: &str| KeyToPath { key: key.into(), path: key.into(), mode: None };
    let source = SecretVolumeSource {
        secret_name: Some(name.into()),
        default_mode: Some(OWNER_READ_ONLY),
        items: key.map(|key| vec![item(key)]),
        optional: None,
    };
    Volume { secret: Some(source), ..named(volume) }
}

fn named(name: &str) -> Volume {
    Volume { name: name.into(), ..Volume::default() }
}
