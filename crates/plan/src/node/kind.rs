//! What kind of node a spec describes, and what follows from the kind alone.

use api::names::role;
use api::sei_node::{
    ArchiveSpec, FullNodeSpec, GenesisCeremony, ObservedKeys, ObservedSnapshotGeneration, ReplayerSpec,
    SeiNodeSpec, SnapshotGeneration, SnapshotSource, ValidatorSpec,
};
use api::sidecar_wire::ConfigMode;

use crate::platform::{Platform, Resources, Storage};

/// A node's kind, with what the spec says about it.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// Follows the chain and serves queries.
    Full(&'a FullNodeSpec),
    /// Keeps the whole chain.
    Archive(&'a ArchiveSpec),
    /// Replays blocks.
    Replayer(&'a ReplayerSpec),
    /// Validates.
    Validator(&'a ValidatorSpec),
}

impl<'a> Kind<'a> {
    /// The kind of a spec. The API server lets exactly one through; of several, the first counts, as it always did.
    #[must_use]
    pub fn of(spec: &'a SeiNodeSpec) -> Option<Self> {
        let full = spec.full_node.as_ref().map(Self::Full);
        full.or_else(|| spec.archive.as_ref().map(Self::Archive))
            .or_else(|| spec.replayer.as_ref().map(Self::Replayer))
            .or_else(|| spec.validator.as_ref().map(Self::Validator))
    }

    /// The value of its role label.
    #[must_use]
    pub fn role(self) -> &'static str {
        match self {
            Self::Full(_) => role::FULL_NODE,
            Self::Archive(_) => role::ARCHIVE,
            Self::Replayer(_) => role::REPLAYER,
            Self::Validator(_) => role::VALIDATOR,
        }
    }

    /// The name of its part of the spec.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Full(_) => "fullNode",
            Self::Archive(_) => "archive",
            Self::Replayer(_) => "replayer",
            Self::Validator(_) => "validator",
        }
    }

    /// The defaults that its settings begin with.
    #[must_use]
    pub fn config_mode(self) -> ConfigMode {
        match self {
            Self::Full(_) | Self::Replayer(_) => ConfigMode::Full,
            Self::Archive(_) => ConfigMode::Archive,
            Self::Validator(_) => ConfigMode::Validator,
        }
    }

    /// The pool of machines that it runs on.
    #[must_use]
    pub fn nodepool(self, platform: &Platform) -> &str {
        match self {
            Self::Archive(_) => &platform.nodepool_archive,
            _ => &platform.nodepool,
        }
    }

    /// The volume that it needs.
    #[must_use]
    pub fn storage(self, platform: &Platform) -> &Storage {
        match self {
            Self::Archive(_) => &platform.storage_archive,
            _ => &platform.storage,
        }
    }

    /// What its seid asks for.
    #[must_use]
    pub fn resources(self, platform: &Platform) -> &Resources {
        match self {
            Self::Archive(_) => &platform.resources_archive,
            _ => &platform.resources,
        }
    }

    /// What it starts from; nothing for the chain's first block.
    #[must_use]
    pub fn snapshot(self) -> Option<&'a SnapshotSource> {
        match self {
            Self::Full(full) => full.snapshot.as_ref(),
            Self::Archive(_) => None,
            Self::Replayer(replayer) => Some(&replayer.snapshot),
            Self::Validator(validator) => validator.snapshot.as_ref(),
        }
    }

    /// The image of its bootstrap pod and the height at which that stops, if it needs such a pod.
    #[must_use]
    pub fn bootstrap(self) -> Option<(&'a str, i64)> {
        let snapshot = self.snapshot()?;
        let height = snapshot.s3.as_ref()?.target_height;
        let image = snapshot.bootstrap_image.as_deref()?;
        (height > 0 && !image.is_empty()).then_some((image, height))
    }

    /// Its part in the making of a new chain.
    #[must_use]
    pub fn ceremony(self) -> Option<&'a GenesisCeremony> {
        match self {
            Self::Validator(validator) => validator.genesis_ceremony.as_ref(),
            _ => None,
        }
    }

    /// The snapshots that it makes for others.
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

    /// The Secrets that it runs with.
    #[must_use]
    pub fn keys(self) -> ObservedKeys {
        let Self::Validator(validator) = self else { return ObservedKeys::default() };
        ObservedKeys {
            signing_key: validator.signing_key.as_ref().map(|key| key.secret.secret_name.clone()),
            node_key: validator.node_key.as_ref().map(|key| key.secret.secret_name.clone()),
            operator_keyring: validator.operator_keyring.as_ref().map(|ring| ring.secret.clone()),
        }
    }

    /// Whether it can sign blocks: then nothing may ever make it forget what it has signed.
    #[must_use]
    pub fn signs(self) -> bool {
        matches!(self, Self::Validator(_))
    }
}
