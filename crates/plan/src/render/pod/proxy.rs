//! The container of the authorizing proxy in front of the sidecar.

use api::SeiNode;
use api::names::{container, data_key, path, port, volume};
use api::sei_node::Scheme;
use api::sidecar_wire;
use k8s_openapi::api::core::v1::Container;

use super::builders::{port as container_port, read_only};
use super::probe::{self, Timing};
use super::security;
use crate::node::sidecar_port;
use crate::platform::Platform;
use crate::render::RenderError;
use crate::render::service::PROXY_PORT;

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
    let mut mounts = vec![read_only(volume::PROXY_CONFIG, path::PROXY_CONFIG)];
    if scheme == Scheme::Https {
        mounts.push(read_only(volume::SIDECAR_TLS, path::TLS));
    }
    Ok(Container {
        name: container::PROXY.into(),
        image: Some(platform.proxy_image.clone()),
        restart_policy: Some("Always".into()),
        args: Some(args(node, platform, scheme)),
        ports: Some(vec![container_port(PROXY_PORT)]),
        volume_mounts: Some(mounts),
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

fn args(node: &SeiNode, platform: &Platform, scheme: Scheme) -> Vec<String> {
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
        format!("--upstream=http://127.0.0.1:{}/", sidecar_port(node)),
        format!("--config-file={}/{}", path::PROXY_CONFIG, data_key::PROXY_CONFIG),
        format!("--ignore-paths={}", sidecar_wire::path::UNAUTHENTICATED.join(",")),
        // Without the identity headers the sidecar rejects every request.
        "--auth-header-fields-enabled=true".into(),
        "--v=0".into(),
    ]);
    // A captured token with this audience is useless at the API server.
    args.extend(platform.proxy_token_audience.iter().map(|name| format!("--auth-token-audiences={name}")));
    args
}
