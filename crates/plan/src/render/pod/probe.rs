//! How the kubelet looks at containers.

use api::names::port;
use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::{HTTPGetAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// When a probe begins, how often it looks, and how often in a row it must fail.
#[derive(Clone, Copy)]
pub(super) struct Rhythm {
    pub(super) delay: Option<i32>,
    pub(super) period: i32,
    pub(super) failures: i32,
}

/// How long a sidecar may take to answer. It looks at its ledger for up to two seconds, and a disk that is busy with a snapshot
/// or a machine that is short of processors makes it slow, not dead. The second that Kubernetes gives by itself would have
/// proxies restarted for that.
const ANSWERED_WITHIN: i32 = 5;

/// A probe that asks the sidecar, through the proxy: the sidecar itself listens where the kubelet cannot reach it.
pub(super) fn of_sidecar(path: &str, scheme: Scheme, rhythm: Rhythm) -> Probe {
    let scheme = match scheme {
        Scheme::Http => None,
        Scheme::Https => Some("HTTPS".into()),
    };
    Probe {
        http_get: Some(HTTPGetAction { scheme, ..get(path, port::PROXY) }),
        timeout_seconds: Some(ANSWERED_WITHIN),
        ..timed(rhythm)
    }
}

/// A probe that asks by HTTP.
pub(super) fn http(path: &str, port: i32, rhythm: Rhythm) -> Probe {
    Probe { http_get: Some(get(path, port)), ..timed(rhythm) }
}

/// A probe that connects.
pub(super) fn tcp(port: i32, rhythm: Rhythm) -> Probe {
    let socket = TCPSocketAction { port: IntOrString::Int(port), host: None };
    Probe { tcp_socket: Some(socket), ..timed(rhythm) }
}

fn get(path: &str, port: i32) -> HTTPGetAction {
    HTTPGetAction { path: Some(path.into()), port: IntOrString::Int(port), ..HTTPGetAction::default() }
}

fn timed(Rhythm { delay, period, failures }: Rhythm) -> Probe {
    Probe {
        initial_delay_seconds: delay,
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
