//! One line for each decision, if wanted. It never holds a token: neither headers nor queries are in it.

use std::time::Duration;

use http::{Method, StatusCode};

use super::peer::Peer;
use crate::outcome::Outcome;

/// What is told of a request.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) outcome: Outcome,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
}

impl Line<'_> {
    /// Writes it.
    pub(crate) fn write(&self) {
        tracing::info!(
            target: "access",
            client = %self.peer.address,
            method = %self.method,
            verb = crate::request::verb::of(self.method),
            path = self.path,
            user = self.user.unwrap_or_default(),
            decision = self.outcome.decision(),
            reason = self.outcome.reason(),
            status = self.status.as_u16(),
            milliseconds = self.took.as_secs_f64() * 1e3,
        );
    }
}
