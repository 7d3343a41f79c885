//! `SeiNodeDeployment`: a fleet of identical nodes.

mod genesis;
mod rules;
mod spec;
mod status;
mod strategy;

pub use genesis::{GenesisAccount, GenesisCeremonyConfig};
pub use spec::{
    DeletionPolicy, Networking, NodeTemplate, SeiNodeDeployment, SeiNodeDeploymentSpec, TemplateMetadata,
};
pub use status::{
    FleetEndpoints, FleetNodeState, FleetPhase, InternalService, InternalServicePorts, NetworkingStatus,
    NodeEndpoints, NodeSummary, PerPodPorts, PerPodService, Rollout, RouteStatus, SeiNodeDeploymentStatus,
};
pub use strategy::{HardFork, UpdateStrategy, UpdateStrategyType};
