//! The API of a node's sidecar: JSON over HTTP, behind the proxy.

mod chain;
pub mod exposure;
mod params;
mod task;

pub use chain::{APP_HASH_AT, AppHashAt, ChainStatus, VotingPower};
pub use params::{
    AssembleGenesis, AwaitAction, AwaitCondition, AwaitedCondition, CeremonyAccount, CeremonyNode,
    CeremonyVesting, ConfigApply, ConfigMode, ConfigureGenesis, ConfigureStateSync, DiscoverPeers,
    GenerateGentx, GenerateIdentity, PeerDiscovery, ResetData, SnapshotRestore, UploadGenesisArtifacts,
};
pub use task::{
    DryRunResult, ErrorBody, NodeId, SidecarState, SidecarStatus, SubmittedTask, TaskRequest, TaskResult,
    TaskState, TaskType,
};

/// Paths of the sidecar's API.
pub mod path {
    /// 200 once seid may start, otherwise 503. Needs no authorization.
    pub const HEALTHZ: &str = "/v0/healthz";
    /// Same as [`HEALTHZ`].
    pub const STARTUPZ: &str = "/v0/startupz";
    /// 200 while the sidecar is alive, whether or not seid may start. Needs no authorization.
    pub const LIVEZ: &str = "/v0/livez";
    /// Metrics. Needs no authorization.
    pub const METRICS: &str = "/v0/metrics";
    /// Returns a [`SidecarStatus`](super::SidecarStatus).
    pub const STATUS: &str = "/v0/status";
    /// Returns a [`NodeId`](super::NodeId).
    pub const NODE_ID: &str = "/v0/node-id";
    /// Returns a [`ChainStatus`](super::ChainStatus), or 503 while seid's RPC does not answer.
    pub const CHAIN: &str = "/v0/chain";
    /// POST submits a [`TaskRequest`](super::TaskRequest); GET returns the latest hundred [`TaskResult`](super::TaskResult)s.
    pub const TASKS: &str = "/v0/tasks";
    /// POST checks a [`TaskRequest`](super::TaskRequest) without executing it and returns a [`DryRunResult`](super::DryRunResult), or
    /// 422 with the error of the task. Not a parameter of [`TASKS`]: a sidecar without dry-runs would ignore it and execute the task.
    pub const DRY_RUN: &str = "/v0/dry-run";
    /// All paths that need no authorization.
    pub const UNAUTHENTICATED: [&str; 4] = [HEALTHZ, STARTUPZ, LIVEZ, METRICS];
}

/// The header with the authenticated user. Only the proxy may set it.
pub const USER_HEADER: &str = "x-remote-user";

/// The header with the type of a submitted task, by which the proxy authorizes it. The sidecar rejects one that differs from the body.
pub const TASK_KIND_HEADER: &str = "x-sei-task-kind";
