//! Who calls. In trusted-header mode the proxy on the same host says so, in a header that it overwrites; anything else than
//! exactly one name is turned away.

use api::sidecar_wire::{USER_HEADER, path};
use http::{HeaderMap, StatusCode};

use super::answer::{self, Answer};
use crate::metrics::Metrics;
use crate::settings::Authn;

/// The longest name of a caller that is written down.
const LONGEST_CALLER: usize = 256;

/// Says who calls, or why the call is turned away.
pub(super) fn caller(
    mode: Authn,
    path: &str,
    headers: &HeaderMap,
    metrics: &Metrics,
) -> Result<Option<String>, Box<Answer>> {
    if mode == Authn::Unauthenticated || path::UNAUTHENTICATED.contains(&path) {
        return Ok(None);
    }
    let refuse = |reason, why: &str| {
        metrics.rejected(reason);
        Err(Box::new(answer::error(StatusCode::UNAUTHORIZED, why)))
    };
    let mut given = headers.get_all(USER_HEADER).iter();
    match (given.next(), given.next()) {
        (None, _) => refuse("missing_header", "missing X-Remote-User header"),
        (Some(_), Some(_)) => refuse(
            "duplicate_header",
            "more than one X-Remote-User header: the proxy must overwrite it, not append to it",
        ),
        (Some(name), None) if name.is_empty() => refuse("empty_header", "empty X-Remote-User header"),
        (Some(name), None) => {
            Ok(Some(String::from_utf8_lossy(name.as_bytes()).chars().take(LONGEST_CALLER).collect()))
        }
    }
}
