//! What the defaults take from the machine that a node runs on.

/// The machine that a node runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name; empty when that is not known.
    pub name: String,
    /// How many processors the process may run on. It is the size of the affinity mask: a quota does not lower it.
    pub processors: usize,
}

impl Host {
    pub(super) fn moniker(&self) -> &str {
        if self.name.is_empty() { "anonymous" } else { &self.name }
    }

    pub(super) fn twice_the_processors(&self) -> i64 {
        i64::try_from(self.processors).unwrap_or(i64::MAX).saturating_mul(2)
    }
}
