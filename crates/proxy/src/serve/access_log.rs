//! The access log: one entry per request. It contains neither headers nor queries, and therefore no token.

use std::time::Duration;

use http::{Method, StatusCode};

use super::peer::Peer;
use crate::outcome::Outcome;

/// The entry of one request.
#[derive(Debug)]
pub(crate) struct AccessLogEntry<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) outcome: Outcome,
    pub(crate) status: StatusCode,
    pub(crate) duration: Duration,
}

impl AccessLogEntry<'_> {
    /// Writes the entry.
    pub(crate) fn emit(&self) {
        tracing::info!(
            target: "access",
            client = %self.peer.address,
            method = %self.method,
            verb = crate::request::verb::for_method(self.method),
            path = self.path,
            user = self.user.unwrap_or_default(),
            decision = self.outcome.decision(),
            reason = self.outcome.reason(),
            status = self.status.as_u16(),
            milliseconds = self.duration.as_secs_f64() * 1e3,
        );
    }
}
