//! Scripted responses of a recorder.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// The response to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// What happens to the connection afterwards.
    pub after: ConnectionAction,
    /// Read the body before the first step instead of after the last.
    pub read_body_first: bool,
    /// Send `100 Continue` if the client expects it.
    pub send_continue: bool,
}

/// One step of a response.
#[derive(Clone, Debug)]
pub enum Step {
    /// Write these bytes.
    Write(Vec<u8>),
    /// Write this many zero bytes.
    Flood(u64),
    /// Wait for this time.
    Pause(Duration),
    /// Wait for this notification.
    Until(Arc<Notify>),
}

/// What happens to a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Read the next request.
    KeepAlive,
    /// Close it.
    Close,
    /// Reset it (RST).
    Reset,
    /// Echo received bytes; answer EOF with EOF.
    Echo,
}

impl Default for Reply {
    fn default() -> Self {
        Self::ok("upstream\n")
    }
}

impl Reply {
    /// 200 with this body.
    #[must_use]
    pub fn ok(body: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Writes these bytes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::steps([Step::Write(bytes.into())])
    }

    /// Runs these steps.
    pub fn steps(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            after: ConnectionAction::KeepAlive,
            read_body_first: true,
            send_continue: true,
        }
    }

    /// Switches to this protocol and echoes.
    #[must_use]
    pub fn upgrade(protocol: &str, more: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{more}\r\n"
        ))
        .then(ConnectionAction::Echo)
    }

    /// Sets what happens to the connection.
    #[must_use]
    pub fn then(mut self, after: ConnectionAction) -> Self {
        self.after = after;
        self
    }

    /// Responds before reading the body.
    #[must_use]
    pub fn before_body(mut self) -> Self {
        (self.read_body_first, self.send_continue) = (false, false);
        self
    }
}
