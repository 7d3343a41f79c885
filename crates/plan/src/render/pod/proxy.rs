//! The container of the authorizing proxy in front of the sidecar.

use api::SeiNode;
use api::names::{container, data_key, path, port, volume};
use api::sei_node::Scheme;
use api::sidecar_wire;
use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

use super::builders::{mount, port as container_port, read_only};
use super::probe::{self, Timing};
use super::security;
use crate::node::{sidecar_isolation, sidecar_port};
use crate::platform::{Platform, SidecarIsolation};
use crate::render::service::PROXY_PORT;
use crate::render::{RenderError, meta, proxy_config, resources};

/// Renders the proxy. When the sidecar does not answer through it, the proxy is restarted first: it has no state to
/// lose.
pub(super) fn container(
    node: &SeiNode,
    platform: &Platform,
    scheme: Scheme,
) -> Result<Container, RenderError> {
    if platform.proxy_image.is_empty() {
        return Err(RenderError("the operator has no proxy image configured".into()));
    }
    let mut mounts = vec![
        read_only(volume::PROXY_CONFIG, path::PROXY_CONFIG),
        read_only(volume::PROXY_TOKEN, path::SERVICE_ACCOUNT),
    ];
    if scheme == Scheme::Https {
        mounts.push(read_only(volume::SIDECAR_TLS, path::TLS));
    }
    let isolation = sidecar_isolation(node, platform);
    if isolation == SidecarIsolation::Isolated {
        // Writable: to connect to a socket needs the right to write.
        mounts.push(mount(volume::SIDECAR_SOCKET, path::SIDECAR_SOCKET_DIR));
    }
    Ok(Container {
        name: container::PROXY.into(),
        image: Some(platform.proxy_image.clone()),
        restart_policy: Some("Always".into()),
        args: Some(args(node, isolation, scheme)),
        ports: Some(vec![container_port(PROXY_PORT)]),
        volume_mounts: Some(mounts),
        // About 27 MB with 512 connections. What others send must not take the memory of seid.
        resources: Some(ResourceRequirements {
            requests: Some(resources::resource_list("proxy", [("cpu", "10m"), ("memory", "32Mi")])?),
            limits: Some(resources::resource_list("proxy", [("memory", "128Mi")])?),
            claims: None,
        }),
        // TCP only: the proxy and seid must start while the sidecar is still busy.
        startup_probe: Some(probe::tcp(port::PROXY, Timing { delay: Some(5), period: 5, failures: 60 })),
        liveness_probe: Some(probe::sidecar(
            sidecar_wire::path::LIVEZ,
            scheme,
            Timing { delay: Some(5), period: 10, failures: 3 },
        )),
        readiness_probe: Some(probe::sidecar(
            sidecar_wire::path::HEALTHZ,
            scheme,
            Timing { delay: Some(2), period: 5, failures: 6 },
        )),
        security_context: Some(security::hardened()),
        ..Container::default()
    })
}

fn args(node: &SeiNode, isolation: SidecarIsolation, scheme: Scheme) -> Vec<String> {
    let (tls, port) = (path::TLS, port::PROXY);
    let mut args = match scheme {
        Scheme::Http => vec![format!("--insecure-listen-address=0.0.0.0:{port}")],
        Scheme::Https => vec![
            format!("--secure-listen-address=0.0.0.0:{port}"),
            format!("--tls-cert-file={tls}/{}", data_key::TLS_CERTIFICATE),
            format!("--tls-private-key-file={tls}/{}", data_key::TLS_KEY),
            // Reloads a renewed certificate without a restart.
            "--tls-reload-interval=30s".into(),
        ],
    };
    args.extend([
        match isolation {
            SidecarIsolation::Isolated => format!("--upstream=unix://{}", path::SIDECAR_SOCKET),
            SidecarIsolation::Shared => format!("--upstream=http://127.0.0.1:{}/", sidecar_port(node)),
        },
        format!("--config-file={}/{}", path::PROXY_CONFIG, proxy_config::key(isolation)),
        format!("--ignore-paths={}", sidecar_wire::path::UNAUTHENTICATED.join(",")),
        // Without the identity headers the sidecar rejects every request.
        "--auth-header-fields-enabled=true".into(),
        "--v=0".into(),
        // A captured token with this audience is useless at the API server, and at the proxies of other nodes.
        format!("--auth-token-audiences={}", meta::sidecar_audience(node)),
    ]);
    args
}
