//! Faults of requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::error_response::ErrorResponse;
use crate::error::Result;

/// A fault of a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Forward after this time. Later faults still apply.
    Delay(Duration),
    /// Send the response after this time. Later faults still apply.
    DelayResponse(Duration),
    /// Do not forward; reset the connection (RST).
    Reset,
    /// Do not forward; send this response.
    Respond(ErrorResponse),
    /// Forward, and rewrite the response.
    RewriteResponse(ResponseRewrite),
    /// Forward, and discard the response.
    LoseResponse(LostResponse),
    /// Kill a process.
    Kill(Kill),
}

/// A rewrite of JSON responses, to simulate other API servers.
#[derive(Clone)]
pub struct ResponseRewrite(pub(super) Arc<dyn Fn(&mut Value) + Send + Sync>);

impl ResponseRewrite {
    /// Rewrites responses with `change`.
    pub fn new(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }
}

impl fmt::Debug for ResponseRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alteration").finish_non_exhaustive()
    }
}

/// What the client gets instead of a discarded response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostResponse {
    /// Its connection is reset (RST).
    Reset,
    /// 504, as from a gateway that timed out.
    GatewayTimeout,
}

/// Crash point: when the process is killed, relative to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPoint {
    /// The request has arrived and is never forwarded.
    BeforeForwarding,
    /// The API server has processed the request; the client gets no response.
    BeforeResponse,
    /// The client has received the whole response.
    AfterResponse,
}

/// Kills a process at a crash point.
///
/// Other requests of the same client (same user and user agent) that arrive between the fatal request and the end
/// of the process are held and then reset: a write that slips through in the last millisecond would make runs
/// differ. Earlier requests are not recalled.
#[derive(Clone)]
pub struct Kill {
    pub(super) point: KillPoint,
    pub(super) act: Arc<dyn Fn() -> Result<()> + Send + Sync>,
}

impl Kill {
    /// Kills with `act`, such as [`Process::kill`](crate::process::Process::kill), which must return only when the
    /// process is gone. `act` runs on a blocking thread.
    pub fn new(point: KillPoint, act: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { point, act: Arc::new(act) }
    }
}

impl fmt::Debug for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kill").field("point", &self.point).finish_non_exhaustive()
    }
}

/// Description in the journal.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(time) => write!(f, "delay {time:?}"),
            Self::DelayResponse(time) => write!(f, "delay response {time:?}"),
            Self::Reset => write!(f, "reset"),
            Self::Respond(response) => write!(f, "respond {}", response.code().as_u16()),
            Self::RewriteResponse(_) => write!(f, "rewrite response"),
            Self::LoseResponse(LostResponse::Reset) => write!(f, "lose response, reset"),
            Self::LoseResponse(LostResponse::GatewayTimeout) => write!(f, "lose response, 504"),
            Self::Kill(kill) => match kill.point {
                KillPoint::BeforeForwarding => write!(f, "kill before forwarding"),
                KillPoint::BeforeResponse => write!(f, "kill before response"),
                KillPoint::AfterResponse => write!(f, "kill after response"),
            },
        }
    }
}
