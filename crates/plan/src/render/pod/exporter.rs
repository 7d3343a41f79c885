//! The container of the chain's metrics.

use api::names::{container, path, port, port_name, volume};
use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

use super::parts::{mount, port as container_port};
use super::probe::{self, Rhythm};
use super::security;
use crate::platform::Platform;
use crate::render::{Refusal, resources};

/// The exporter. There is no startup probe: it works only while seid serves gRPC, which a validator never does, and a probe
/// that waits for that would have it killed again and again, for ever. Not being ready says the same, and harms nobody. It has ten
/// minutes until it is looked at whether it hangs.
pub(super) fn container(platform: &Platform) -> Result<Container, Refusal> {
    if platform.exporter_image.is_empty() {
        return Err(Refusal("the operator was given no image of the exporter".into()));
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
        volume_mounts: Some(vec![mount(volume::SIDECAR_TMP, path::TMP)]),
        resources: Some(ResourceRequirements {
            requests: Some(resources::list("exporter", [("cpu", "50m"), ("memory", "64Mi")])?),
            limits: Some(resources::list("exporter", [("memory", "384Mi")])?),
            claims: None,
        }),
        readiness_probe: Some(probe::tcp(port::EXPORTER, Rhythm { delay: None, period: 10, failures: 6 })),
        liveness_probe: Some(probe::tcp(
            port::EXPORTER,
            Rhythm { delay: Some(600), period: 10, failures: 3 },
        )),
        security_context: Some(security::hardened()),
        ..Container::default()
    })
}
