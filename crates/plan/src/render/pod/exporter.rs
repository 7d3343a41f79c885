//! The container that exports chain metrics.

use api::names::{container, path, port, port_name, volume};
use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

use super::builders::{mount, port as container_port};
use super::probe::{self, Timing};
use super::security;
use crate::platform::Platform;
use crate::render::{RenderError, resources};

/// Renders the exporter. It has no startup probe: it works only while seid serves gRPC, which a validator never does,
/// and a startup probe would restart it forever. The readiness probe reports the same without restarts. Liveness is
/// checked after ten minutes.
pub(super) fn container(platform: &Platform) -> Result<Container, RenderError> {
    if platform.exporter_image.is_empty() {
        return Err(RenderError("the operator has no exporter image configured".into()));
    }
    let listen = format!("--listen-address=:{}", port::EXPORTER);
    Ok(Container {
        name: container::EXPORTER.into(),
        image: Some(platform.exporter_image.clone()),
        args: Some(vec![
            "--denom=usei".into(),
            "--denom-coefficient=1000000".into(),
            "--bech-prefix=sei".into(),
            listen,
        ]),
        ports: Some(vec![container_port((port_name::EXPORTER, port::EXPORTER))]),
        volume_mounts: Some(vec![mount(volume::EXPORTER_TMP, path::TMP)]),
        resources: Some(ResourceRequirements {
            requests: Some(resources::resource_list("exporter", [("cpu", "50m"), ("memory", "64Mi")])?),
            limits: Some(resources::resource_list("exporter", [("memory", "384Mi")])?),
            claims: None,
        }),
        readiness_probe: Some(probe::tcp(port::EXPORTER, Timing { delay: None, period: 10, failures: 6 })),
        liveness_probe: Some(probe::tcp(
            port::EXPORTER,
            Timing { delay: Some(600), period: 10, failures: 3 },
        )),
        security_context: Some(security::hardened()),
        ..Container::default()
    })
}
