//! Builders of container fields.

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, VolumeMount};

/// Returns an environment variable.
pub(super) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// Returns a named port.
pub(super) fn port((name, port): (&str, i32)) -> ContainerPort {
    ContainerPort { name: Some(name.into()), container_port: port, ..ContainerPort::default() }
}

/// Returns a writable volume mount.
pub(super) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.into(), mount_path: path.into(), ..VolumeMount::default() }
}

/// Returns a read-only volume mount.
pub(super) fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount(volume, path) }
}

/// Returns a read-only mount of one file. It keeps its content until the container restarts: an edited key must not be
/// swapped under a running seid.
pub(super) fn file(volume: &str, path: &str, name: &str) -> VolumeMount {
    VolumeMount { sub_path: Some(name.into()), ..read_only(volume, path) }
}
