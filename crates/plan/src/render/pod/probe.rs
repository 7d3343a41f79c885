//! Probes of containers.

use api::names::port;
use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::{HTTPGetAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The timing of a probe, in seconds and failures.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    pub(super) delay: Option<i32>,
    pub(super) period: i32,
    pub(super) failures: i32,
}

/// The timeout of a sidecar probe. The sidecar reads its ledger for up to two seconds, and is slow, not dead, on a busy
/// disk or CPU. The Kubernetes default of one second would restart proxies for that.
const SIDECAR_TIMEOUT_SECONDS: i32 = 5;

/// Returns an HTTP probe of the sidecar through the proxy: the sidecar itself listens on loopback.
pub(super) fn sidecar(path: &str, scheme: Scheme, timing: Timing) -> Probe {
    let scheme = match scheme {
        Scheme::Http => None,
        Scheme::Https => Some("HTTPS".into()),
    };
    Probe {
        http_get: Some(HTTPGetAction { scheme, ..get(path, port::PROXY) }),
        timeout_seconds: Some(SIDECAR_TIMEOUT_SECONDS),
        ..timed(timing)
    }
}

/// Returns an HTTP probe.
pub(super) fn http(path: &str, port: i32, timing: Timing) -> Probe {
    Probe { http_get: Some(get(path, port)), ..timed(timing) }
}

/// Returns a TCP probe.
pub(super) fn tcp(port: i32, timing: Timing) -> Probe {
    let socket = TCPSocketAction { port: IntOrString::Int(port), host: None };
    Probe { tcp_socket: Some(socket), ..timed(timing) }
}

fn get(path: &str, port: i32) -> HTTPGetAction {
    HTTPGetAction { path: Some(path.into()), port: IntOrString::Int(port), ..HTTPGetAction::default() }
}

fn timed(Timing { delay, period, failures }: Timing) -> Probe {
    Probe {
        initial_delay_seconds: delay,
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
