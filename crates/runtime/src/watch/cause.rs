//! Why a watch broke, in a few words that a metric can count.

use kube::runtime::watcher::Error;

/// The cause: a word of a closed list.
pub(super) fn of(error: &Error) -> &'static str {
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            of_request(error)
        }
        Error::WatchError(status) => of_code(status.code),
        Error::NoResourceVersion => "protocol",
    }
}

fn of_request(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => of_code(status.code),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => "protocol",
        _ => "connection",
    }
}

fn of_code(code: u16) -> &'static str {
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
