//! The container of the proxy that stands before the sidecar.

use api::SeiNode;
use api::names::{container, data_key, path, port, volume};
use api::sei_node::Scheme;
use api::sidecar_wire;
use k8s_openapi::api::core::v1::Container;

use super::parts::{port as container_port, read_only};
use super::probe::{self, Rhythm};
use super::security;
use crate::node::sidecar_port;
use crate::platform::Platform;
use crate::render::Refusal;
use crate::render::service::PROXY_PORT;

/// The proxy. When the sidecar does not answer through it, it is restarted first: it loses nothing by that.
pub(super) fn container(node: &SeiNode, platform: &Platform, scheme: Scheme) -> Result<Container, Refusal> {
    if platform.proxy_image.is_empty() {
        return Err(Refusal("the operator was given no image of the proxy".into()));
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
        // Not by asking the sidecar: seid and the proxy are to come up while the sidecar is still at work.
        startup_probe: Some(probe::tcp(port::PROXY, Rhythm { delay: Some(5), period: 5, failures: 60 })),
        liveness_probe: Some(probe::of_sidecar(
            sidecar_wire::path::LIVEZ,
            scheme,
            Rhythm { delay: Some(5), period: 10, failures: 3 },
        )),
        readiness_probe: Some(probe::of_sidecar(
            sidecar_wire::path::HEALTHZ,
            scheme,
            Rhythm { delay: Some(2), period: 5, failures: 6 },
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
            // A renewed certificate is taken up without a restart.
            "--tls-reload-interval=30s".into(),
        ],
    };
    args.extend([
        format!("--upstream=http://127.0.0.1:{}/", sidecar_port(node)),
        format!("--config-file={}/{}", path::PROXY_CONFIG, data_key::PROXY_CONFIG),
        format!("--ignore-paths={}", sidecar_wire::path::UNAUTHENTICATED.join(",")),
        // Without it the sidecar does not learn who calls, and turns everybody away.
        "--auth-header-fields-enabled=true".into(),
        "--v=0".into(),
    ]);
    // Whoever captures such a token cannot use it at the API server.
    args.extend(platform.proxy_token_audience.iter().map(|name| format!("--auth-token-audiences={name}")));
    args
}
