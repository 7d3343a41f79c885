//! What a recorder answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// What is answered to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// What happens to the connection.
    pub after: After,
    /// The body is read before the first step; otherwise after the last.
    pub body_first: bool,
    /// `Expect: 100-continue` is met.
    pub continues: bool,
}

/// One thing that is done.
#[derive(Clone, Debug)]
pub enum Step {
    /// These bytes are written.
    Write(Vec<u8>),
    /// So many zeros are written.
    Flood(u64),
    /// Nothing is done for a time.
    Pause(Duration),
    /// Nothing is done until this is notified.
    Until(Arc<Notify>),
}

/// What happens to a connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next request is read.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is reset (RST).
    Reset,
    /// What comes is sent back as it came; an end of what comes is answered with an end.
    Echo,
}

impl Default for Reply {
    fn default() -> Self {
        Self::ok("upstream\n")
    }
}

impl Reply {
    /// 200 with a text.
    #[must_use]
    pub fn ok(body: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// These bytes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::steps([Step::Write(bytes.into())])
    }

    /// These steps.
    pub fn steps(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            after: After::KeepAlive,
            body_first: true,
            continues: true,
        }
    }

    /// A switch of protocols to this one, and an echo.
    #[must_use]
    pub fn upgrade(protocol: &str, more: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{more}\r\n"
        ))
        .then(After::Echo)
    }

    /// What happens to the connection.
    #[must_use]
    pub fn then(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    /// Answers without having read the body.
    #[must_use]
    pub fn early(mut self) -> Self {
        (self.body_first, self.continues) = (false, false);
        self
    }
}
