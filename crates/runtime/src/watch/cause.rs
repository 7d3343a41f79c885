//! Classifies watch errors for the metric label `cause`.

use kube::runtime::watcher::Error;

/// Returns the value of the metric label `cause`.
pub(super) fn classify(error: &Error) -> &'static str {
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            classify_request(error)
        }
        Error::WatchError(status) => classify_code(status.code),
        Error::NoResourceVersion => "protocol",
    }
}

fn classify_request(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => classify_code(status.code),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => "protocol",
        _ => "connection",
    }
}

fn classify_code(code: u16) -> &'static str {
    match code {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not_found",
        410 => "expired",
        429 => "throttled",
        500.. => "server",
        _ => "refused",
    }
}
