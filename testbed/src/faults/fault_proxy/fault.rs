//! What can be done to a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::refusal::Refusal;
use crate::error::Result;

/// What is done to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is forwarded only after this time. Other faults still meet it.
    Delay(Duration),
    /// Its answer is passed on only after this time. Other faults still meet it.
    DelayAnswer(Duration),
    /// It is not forwarded; its connection is reset (RST).
    Reset,
    /// It is not forwarded; the proxy answers this.
    Answer(Refusal),
    /// It is forwarded and answered, and its answer is passed on changed.
    Alter(Alteration),
    /// It is forwarded and answered, and its answer is lost.
    LoseAnswer(Loss),
    /// A process is killed over it.
    Kill(Kill),
}

/// A change of an answer, which is JSON: for what other API servers than ours say.
#[derive(Clone)]
pub struct Alteration(pub(super) Arc<dyn Fn(&mut Value) + Send + Sync>);

impl Alteration {
    /// Changes answers by `change`.
    pub fn by(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }
}

impl fmt::Debug for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alteration").finish_non_exhaustive()
    }
}

/// What a client gets in place of a lost answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its connection is reset (RST).
    Reset,
    /// 504, as from a gateway that did not wait for the answer.
    GatewayTimeout,
}

/// When a process is killed over a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The request has come, and is never forwarded.
    BeforeForwarding,
    /// The API server has done what was asked; nobody hears of it.
    BeforeAnswer,
    /// The answer is with the client to the last byte.
    AfterAnswer,
}

/// The killing of a process, at a moment in the life of a request.
///
/// What else the same client (the same user with the same user agent) asks between the fatal request and its end is
/// held, and then reset: a write that slips out in the last millisecond would make each run different. What it had asked
/// before is not called back.
#[derive(Clone)]
pub struct Kill {
    pub(super) moment: Moment,
    pub(super) act: Arc<dyn Fn() -> Result<()> + Send + Sync>,
}

impl Kill {
    /// Kills by `act`, such as [`Process::kill`](crate::process::Process::kill), which must return only when the process
    /// is gone. It runs where it may block.
    pub fn at(moment: Moment, act: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { moment, act: Arc::new(act) }
    }
}

impl fmt::Debug for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kill").field("moment", &self.moment).finish_non_exhaustive()
    }
}

/// The name that the journal knows it by.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(time) => write!(f, "delay {time:?}"),
            Self::DelayAnswer(time) => write!(f, "delay the answer {time:?}"),
            Self::Reset => write!(f, "reset"),
            Self::Answer(refusal) => write!(f, "answer {}", refusal.code().as_u16()),
            Self::Alter(_) => write!(f, "alter the answer"),
            Self::LoseAnswer(Loss::Reset) => write!(f, "lose the answer, reset"),
            Self::LoseAnswer(Loss::GatewayTimeout) => write!(f, "lose the answer, 504"),
            Self::Kill(kill) => match kill.moment {
                Moment::BeforeForwarding => write!(f, "kill before forwarding"),
                Moment::BeforeAnswer => write!(f, "kill before the answer"),
                Moment::AfterAnswer => write!(f, "kill after the answer"),
            },
        }
    }
}
