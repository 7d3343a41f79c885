//! The moments at which an operator is killed, or an answer to it is lost.

use std::fmt;

/// What happens at a request that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The operator has its answer, and is killed.
    Killed,
    /// The operator is killed before it has its answer: it cannot have learned that the change was made.
    KilledUnheard,
    /// The change is made, its answer is lost, and the operator lives on.
    Unheard,
}

/// One moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The operator is down when the user acts, and comes back after that.
    Absent,
    /// The n-th write to the API server, counted from one.
    Write(u64, Blow),
    /// The n-th task that was given to the sidecar, counted from one.
    Submission(u32, Blow),
}

impl Point {
    /// Every moment of a run that, undisturbed, has so many writes and submissions.
    ///
    /// A sidecar's answer that was heard and not recorded is the same moment as the next write before it was made, which the
    /// kill before it leaves behind too: what is in memory is lost either way.
    pub fn all(writes: u64, submissions: u32) -> Vec<Self> {
        let mut all = vec![Self::Absent];
        for blow in [Blow::Killed, Blow::KilledUnheard, Blow::Unheard] {
            all.extend((1..=writes).map(|number| Self::Write(number, blow)));
        }
        for blow in [Blow::KilledUnheard, Blow::Unheard] {
            all.extend((1..=submissions).map(|number| Self::Submission(number, blow)));
        }
        all
    }

    /// A few of them, as different from each other as they come: the first, the last, and some in between. Also each moment
    /// after a deletion: what is gone can no longer be looked at.
    pub fn some(all: &[Self], count: usize, deletions: &[u64]) -> Vec<Self> {
        let last = all.len().saturating_sub(1);
        let mut places: Vec<usize> =
            (0..count).map(|number| number * last / count.saturating_sub(1).max(1)).collect();
        places.dedup();
        let mut some: Vec<Self> = places.into_iter().filter_map(|place| all.get(place).copied()).collect();
        let deletions = deletions.iter().map(|number| Self::Write(*number, Blow::Killed));
        let missing: Vec<Self> = deletions.filter(|point| !some.contains(point)).collect();
        some.extend(missing);
        some
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, number, blow) = match self {
            Self::Absent => return write!(f, "absent"),
            Self::Write(number, blow) => ("write", *number, blow),
            Self::Submission(number, blow) => ("submission", u64::from(*number), blow),
        };
        let blow = match blow {
            Blow::Killed => "killed",
            Blow::KilledUnheard => "killed-unheard",
            Blow::Unheard => "unheard",
        };
        write!(f, "{what}-{number}-{blow}")
    }
}
