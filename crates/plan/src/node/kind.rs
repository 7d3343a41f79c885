//! The kind of a node, and what follows from it alone.

use api::names::role;
use api::sei_node::{
    ArchiveSpec, FullNodeSpec, GenesisCeremony, ObservedKeys, ObservedSnapshotGeneration, ReplayerSpec,
    SeiNodeSpec, SnapshotGeneration, SnapshotSource, ValidatorSpec,
};
use api::sidecar_wire::ConfigMode;

use crate::platform::{Platform, Resources, Storage};

/// The kind of a node, with its part of the spec.
#[derive(Clone, Copy, Debug)]
pub enum NodeKind<'a> {
    /// Follows the chain and serves queries.
    Full(&'a FullNodeSpec),
    /// Keeps the full history of the chain.
    Archive(&'a ArchiveSpec),
    /// Replays blocks.
    Replayer(&'a ReplayerSpec),
    /// Signs blocks.
    Validator(&'a ValidatorSpec),
}

impl<'a> NodeKind<'a> {
    /// Returns the kind of a spec. The API server accepts exactly one; if several are set, the first counts, as it
    /// always did.
    #[must_use]
    pub fn from_spec(spec: &'a SeiNodeSpec) -> Option<Self> {
        let full = spec.full_node.as_ref().map(Self::Full);
        full.or_else(|| spec.archive.as_ref().map(Self::Archive))
            .or_else(|| spec.replayer.as_ref().map(Self::Replayer))
            .or_else(|| spec.validator.as_ref().map(Self::Validator))
    }

    /// Returns the value of the role label.
    #[must_use]
    pub fn role(self) -> &'static str {
        match self {
            Self::Full(_) => role::FULL_NODE,
            Self::Archive(_) => role::ARCHIVE,
            Self::Replayer(_) => role::REPLAYER,
            Self::Validator(_) => role::VALIDATOR,
        }
    }

    /// Returns the name of its field in the spec.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Full(_) => "fullNode",
            Self::Archive(_) => "archive",
            Self::Replayer(_) => "replayer",
            Self::Validator(_) => "validator",
        }
    }

    /// Returns the defaults that its configuration is based on.
    #[must_use]
    pub fn config_mode(self) -> ConfigMode {
        match self {
            Self::Full(_) | Self::Replayer(_) => ConfigMode::Full,
            Self::Archive(_) => ConfigMode::Archive,
            Self::Validator(_) => ConfigMode::Validator,
        }
    }

    /// Returns the node pool that it runs on.
    #[must_use]
    pub fn nodepool(self, platform: &Platform) -> &str {
        match self {
            Self::Archive(_) => &platform.nodepool_archive,
            _ => &platform.nodepool,
        }
    }

    /// Returns the volume that it needs.
    #[must_use]
    pub fn storage(self, platform: &Platform) -> &Storage {
        match self {
            Self::Archive(_) => &platform.storage_archive,
            _ => &platform.storage,
        }
    }

    /// Returns the resource requests of its seid.
    #[must_use]
    pub fn resources(self, platform: &Platform) -> &Resources {
        match self {
            Self::Archive(_) => &platform.resources_archive,
            _ => &platform.resources,
        }
    }

    /// Returns the snapshot that it starts from; none if it starts from the first block.
    #[must_use]
    pub fn snapshot(self) -> Option<&'a SnapshotSource> {
        match self {
            Self::Full(full) => full.snapshot.as_ref(),
            Self::Archive(_) => None,
            Self::Replayer(replayer) => Some(&replayer.snapshot),
            Self::Validator(validator) => validator.snapshot.as_ref(),
        }
    }

    /// Returns the image of its bootstrap pod and the height at which that stops, if it needs such a pod.
    #[must_use]
    pub fn bootstrap(self) -> Option<(&'a str, i64)> {
        let snapshot = self.snapshot()?;
        let height = snapshot.s3.as_ref()?.target_height;
        let image = snapshot.bootstrap_image.as_deref()?;
        (height > 0 && !image.is_empty()).then_some((image, height))
    }

    /// Returns its part in the genesis ceremony of a new chain.
    #[must_use]
    pub fn ceremony(self) -> Option<&'a GenesisCeremony> {
        match self {
            Self::Validator(validator) => validator.genesis_ceremony.as_ref(),
            _ => None,
        }
    }

    /// Returns which snapshots it generates.
    #[must_use]
    pub fn snapshot_generation(self) -> ObservedSnapshotGeneration {
        let generation: Option<&SnapshotGeneration> = match self {
            Self::Full(full) => full.snapshot_generation.as_ref(),
            Self::Archive(archive) => archive.snapshot_generation.as_ref(),
            _ => None,
        };
        generation.and_then(|generation| generation.tendermint.as_ref()).map_or_else(
            ObservedSnapshotGeneration::default,
            |tendermint| ObservedSnapshotGeneration {
                keep_recent: tendermint.keep_recent,
                publish: tendermint.publish.is_some(),
            },
        )
    }

    /// Returns the names of the key Secrets that it runs with.
    #[must_use]
    pub fn key_secrets(self) -> ObservedKeys {
        let Self::Validator(validator) = self else { return ObservedKeys::default() };
        ObservedKeys {
            signing_key: validator.signing_key.as_ref().map(|key| key.secret.secret_name.clone()),
            node_key: validator.node_key.as_ref().map(|key| key.secret.secret_name.clone()),
            operator_keyring: validator.operator_keyring.as_ref().map(|ring| ring.secret.clone()),
        }
    }

    /// Returns whether it signs blocks. Such a node must never lose the record of what it has signed.
    #[must_use]
    pub fn can_sign(self) -> bool {
        matches!(self, Self::Validator(_))
    }
}
