//! Host properties that defaults depend on.

/// Host that a node runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host name; empty if unknown.
    pub name: String,
    /// Number of processors in the affinity mask of the process. A CPU quota does not lower it.
    pub processors: usize,
}

impl Host {
    pub(super) fn moniker(&self) -> &str {
        if self.name.is_empty() { "anonymous" } else { &self.name }
    }

    pub(super) fn double_processors(&self) -> i64 {
        i64::try_from(self.processors).unwrap_or(i64::MAX).saturating_mul(2)
    }
}
