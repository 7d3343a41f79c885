//! Pieces that containers are put together from.

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, VolumeMount};

/// A variable with a value.
pub(super) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// A port with a name.
pub(super) fn port((name, port): (&str, i32)) -> ContainerPort {
    ContainerPort { name: Some(name.into()), container_port: port, ..ContainerPort::default() }
}

/// A volume that is written.
pub(super) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.into(), mount_path: path.into(), ..VolumeMount::default() }
}

/// A volume that is only read.
pub(super) fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount(volume, path) }
}

/// One file of a volume, as it is when the container starts. A key that is edited must not be swapped under a running seid.
pub(super) fn file(volume: &str, path: &str, name: &str) -> VolumeMount {
    VolumeMount { sub_path: Some(name.into()), ..read_only(volume, path) }
}
