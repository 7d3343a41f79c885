//! The points at which the operator is killed, or a response to it is lost.

use std::fmt;

/// The fault that is injected at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// The operator is killed after it received the response.
    KillAfterResponse,
    /// The operator is killed before it receives the response of a write that was applied.
    KillBeforeResponse,
    /// The write is applied, its response is lost, and the operator keeps running.
    ResponseLost,
}

/// One point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// The operator is down when the user acts, and is started afterward.
    Absent,
    /// The n-th write to the API server, counted from 1.
    Write(u64, Injection),
    /// The n-th task submission to the sidecar, counted from 1.
    Submission(u32, Injection),
}

impl CrashPoint {
    /// Returns all crash points of a run with this many writes and submissions.
    ///
    /// A kill after the response of a submission is not listed: the response is only in memory, so that it equals a kill after
    /// the previous write.
    pub fn all(writes: u64, submissions: u32) -> Vec<Self> {
        let mut all = vec![Self::Absent];
        for injection in
            [Injection::KillAfterResponse, Injection::KillBeforeResponse, Injection::ResponseLost]
        {
            all.extend((1..=writes).map(|number| Self::Write(number, injection)));
        }
        for injection in [Injection::KillBeforeResponse, Injection::ResponseLost] {
            all.extend((1..=submissions).map(|number| Self::Submission(number, injection)));
        }
        all
    }

    /// Returns a sample: the first, the last, some evenly in between, and each point after a deletion, since a deleted object can
    /// no longer be observed.
    pub fn sample(all: &[Self], count: usize, deletions: &[u64]) -> Vec<Self> {
        let last = all.len().saturating_sub(1);
        let mut indices: Vec<usize> =
            (0..count).map(|number| number * last / count.saturating_sub(1).max(1)).collect();
        indices.dedup();
        let mut sample: Vec<Self> = indices.into_iter().filter_map(|index| all.get(index).copied()).collect();
        let deletions = deletions.iter().map(|number| Self::Write(*number, Injection::KillAfterResponse));
        let missing: Vec<Self> = deletions.filter(|point| !sample.contains(point)).collect();
        sample.extend(missing);
        sample
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, number, injection) = match self {
            Self::Absent => return write!(f, "absent"),
            Self::Write(number, injection) => ("write", *number, injection),
            Self::Submission(number, injection) => ("submission", u64::from(*number), injection),
        };
        let injection = match injection {
            Injection::KillAfterResponse => "kill-after-response",
            Injection::KillBeforeResponse => "kill-before-response",
            Injection::ResponseLost => "response-lost",
        };
        write!(f, "{what}-{number}-{injection}")
    }
}
