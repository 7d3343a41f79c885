//! Authentication. In trusted-header mode the proxy on the same host sets the user in a header; any request without exactly one
//! user is rejected.

use api::sidecar_wire::{USER_HEADER, path};
use http::{HeaderMap, StatusCode};

use super::response::{self, HttpResponse};
use crate::metrics::Metrics;
use crate::settings::AuthnMode;

/// The longest stored user name, in characters.
const MAX_CALLER: usize = 256;

/// Returns the authenticated user, if the mode requires one, or the response that rejects the request.
pub(super) fn authenticate(
    mode: AuthnMode,
    path: &str,
    headers: &HeaderMap,
    metrics: &Metrics,
) -> Result<Option<String>, Box<HttpResponse>> {
    if mode == AuthnMode::Unauthenticated || path::UNAUTHENTICATED.contains(&path) {
        return Ok(None);
    }
    let reject = |reason, message: &str| {
        metrics.authn_rejected(reason);
        Err(Box::new(response::error(StatusCode::UNAUTHORIZED, message)))
    };
    let mut users = headers.get_all(USER_HEADER).iter();
    match (users.next(), users.next()) {
        (None, _) => reject("missing_header", "missing X-Remote-User header"),
        (Some(_), Some(_)) => reject(
            "duplicate_header",
            "more than one X-Remote-User header: the proxy must overwrite it, not append to it",
        ),
        (Some(user), None) if user.is_empty() => reject("empty_header", "empty X-Remote-User header"),
        (Some(user), None) => {
            Ok(Some(String::from_utf8_lossy(user.as_bytes()).chars().take(MAX_CALLER).collect()))
        }
    }
}
