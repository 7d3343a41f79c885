//! Plugin volumes and the socket mount of the API server container.

use api::names::kms::pod::{DATA, DATA_FOLDER, RESOURCE_FOLDER, RESOURCES, SOCKET_FOLDER, SOCKETS};
use k8s_openapi::api::core::v1::VolumeMount;
use serde_json::{Value, json};

use super::{container, json as to_json, list_field};
use crate::kms::plugin::{InvalidKmsConfig, PluginFiles};

/// Default mode of Secret volumes (0644).
const FILE_MODE: i32 = 420;

/// Returns the mount of the sockets.
pub(super) fn sockets(read_only: bool) -> VolumeMount {
    VolumeMount {
        name: SOCKETS.into(),
        mount_path: SOCKET_FOLDER.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// Returns the mount of the plugin files.
pub(super) fn files(files: &PluginFiles) -> VolumeMount {
    let (name, folder) = match files {
        PluginFiles::Secret(_) => (DATA, DATA_FOLDER),
        PluginFiles::Resources(_) => (RESOURCES, RESOURCE_FOLDER),
    };
    VolumeMount {
        name: name.into(),
        mount_path: folder.into(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// Mounts the sockets into the API server container.
pub(super) fn mount_sockets(pod: &mut Value, name: &str) -> Result<(), InvalidKmsConfig> {
    let mounts = list_field(container(pod, name)?, "volumeMounts")?;
    if let Some(other) = mounts.iter().find(|mount| mount["mountPath"] == SOCKET_FOLDER) {
        return Err(InvalidKmsConfig(format!(
            "container {name:?} mounts volume {} at {SOCKET_FOLDER}, the directory of the plugin sockets: remove that mount",
            other["name"],
        )));
    }
    mounts.push(to_json(&sockets(false))?);
    Ok(())
}

/// Adds the plugin volumes.
pub(super) fn add(pod: &mut Value, files: &PluginFiles) -> Result<(), InvalidKmsConfig> {
    let volumes = list_field(pod, "volumes")?;
    volumes.push(json!({ "name": SOCKETS, "emptyDir": {} }));
    match files {
        PluginFiles::Secret(secret) => {
            volumes
                .push(json!({ "name": DATA, "secret": { "secretName": secret, "defaultMode": FILE_MODE } }));
        }
        PluginFiles::Resources(_) => {
            if !volumes.iter().any(|volume| volume["name"] == RESOURCES) {
                return Err(InvalidKmsConfig(format!(
                    "the pod has no volume {RESOURCES:?} with the static pod resources: add it, or inject as for a Deployment"
                )));
            }
        }
    }
    Ok(())
}
