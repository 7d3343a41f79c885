//! Lockable parts of a node.

/// A part of the node that a task locks. Two tasks that lock the same resource never run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Whether seid may start (`mark-ready`, `mark-not-ready`).
    Readiness,
    /// The seid process.
    Process,
    /// The files in `config`, except the genesis file.
    Config,
    /// The genesis file and the files it is assembled from.
    Genesis,
    /// The chain data, including snapshots.
    Data,
    /// The record of the last uploaded snapshot.
    Upload,
    /// The record of the last exported block.
    Export,
}

impl Resource {
    /// The number of variants.
    pub const COUNT: usize = 7;
}
