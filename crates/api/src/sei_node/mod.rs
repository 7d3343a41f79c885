//! `SeiNode`: a single node of a Sei chain.

mod kind;
mod peers;
mod plan;
mod rules;
mod scheduling;
mod sidecar;
mod snapshot;
mod spec;
mod status;
mod validator;
mod volume;

pub use kind::{ArchiveSpec, FullNodeSpec, ReplayerSpec, ResultExport, ShadowResult};
pub use peers::{Ec2TagsPeers, LabelPeers, PeerSource, StaticPeers};
pub use plan::{
    ConfigChange, FailedPlan, FailedTask, PlanChanges, PlanKind, PlanPhase, PlannedTask, TaskPlan,
    TaskStatus, WaitingFor,
};
pub use scheduling::Scheduling;
pub use sidecar::{IssuerKind, SidecarConfig, SidecarIsolation, SidecarTls};
pub use snapshot::{
    Publish, S3Snapshot, SnapshotGeneration, SnapshotSource, StateSync, TendermintSnapshotGeneration,
};
pub use spec::{Entrypoint, SeiNode, SeiNodeSpec};
pub use status::{
    ObservedKeys, ObservedSnapshotGeneration, ObservedTls, Scheme, SeiNodePhase, SeiNodeStatus, StartedFrom,
};
pub use validator::{
    DEFAULT_OPERATOR_KEY_NAME, GenesisCeremony, KeyringSecret, NodeKey, OperatorKeyring, PassphraseSecretRef,
    SecretKeySource, SigningKey, ValidatorSpec,
};
pub use volume::{DataDeletionPolicy, DataVolume, Storage, VolumeImport};
