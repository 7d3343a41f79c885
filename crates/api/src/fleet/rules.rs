//! CEL validation rules of a `SeiNodeDeployment`. All transition rules are on `spec`; the rules in `sei_node::rules` also apply
//! to `template.spec`.

use crate::rule::Rule;

/// Rules of `spec`: consistency first, then immutability.
pub(crate) const SPEC: &[Rule] = &[
    Rule::forbidden(
        ".replicas",
        "self.replicas <= 1 || !has(self.template.spec.validator) || !has(self.template.spec.validator.signingKey)",
        "replicas must be 1 with a signing key, because several nodes would sign with the same key and be slashed \
         for double signing: create one fleet per key",
    ),
    Rule::forbidden(
        ".replicas",
        "self.replicas <= 1 || !self.template.spec.?dataVolume.?__import__.hasValue()",
        "replicas must be 1 with an imported volume, because several nodes would write to it and corrupt it: \
         set replicas to 1, or remove template.spec.dataVolume.import",
    ),
    Rule::required(
        ".template.spec.validator",
        "!has(self.genesis) || has(self.template.spec.validator)",
        "genesis requires validators: set template.spec.validator, or remove genesis",
    ),
    Rule::forbidden(
        ".template.spec.validator.signingKey",
        "!has(self.genesis) || !self.template.spec.?validator.?signingKey.hasValue()",
        "signingKey is not allowed with genesis, because validators of a new chain generate their own keys: \
         remove signingKey and nodeKey, or genesis",
    ),
    Rule::forbidden(
        ".template.spec.validator.genesisCeremony",
        "!self.template.spec.?validator.?genesisCeremony.hasValue()",
        "genesisCeremony is set by the operator: remove it, and configure the new chain in genesis",
    ),
    Rule::invalid(
        ".genesis.chainId",
        "!has(self.genesis) || self.genesis.chainId == self.template.spec.chainId",
        "must equal template.spec.chainId",
    ),
    Rule::forbidden(
        ".genesis",
        "has(self.genesis) == has(oldSelf.genesis) && (!has(self.genesis) \
         || (self.genesis.chainId == oldSelf.genesis.chainId \
         && self.genesis.stakingAmount == oldSelf.genesis.stakingAmount \
         && self.genesis.accountBalance == oldSelf.genesis.accountBalance))",
        "genesis, its stakes and its balances are immutable, because every node has already used them: \
         create a new fleet instead",
    ),
];

/// Rules of the update strategy.
pub(crate) const UPDATE_STRATEGY: &[Rule] = &[
    Rule::forbidden(
        ".type",
        "self.type != 'BlueGreen'",
        "type BlueGreen is not supported, because two nodes with one signing key are slashed and a second copy of the data has to \
         be synced first: use type InPlace with maxUnavailable",
    ),
    Rule::required(
        ".hardFork",
        "self.type != 'HardFork' || has(self.hardFork)",
        "type HardFork requires hardFork.haltHeight",
    ),
    Rule::forbidden(
        ".maxUnavailable",
        "!has(self.maxUnavailable) || self.type == 'InPlace'",
        "maxUnavailable is only supported by type InPlace: remove it, or use type InPlace",
    ),
    Rule::invalid(
        ".maxUnavailable",
        "!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable >= 1 \
         : self.maxUnavailable.matches('^([1-9][0-9]?|100)%$'))",
        "must be a number of at least 1 or a percentage from 1% to 100%",
    ),
];

/// Rules of the ID of a new chain.
pub(crate) const GENESIS_CHAIN_ID: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9][a-z0-9-]*[a-z0-9]$')",
    "must consist of at least two lower-case letters, digits and dashes, like devnet-1, because it is part of host \
     names and labels",
)];

/// Rules of a duration.
pub(crate) const DURATION: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$')",
    "must be a duration, like 90s, 15m or 1h30m",
)];

/// Rules of an account address.
pub(crate) const ACCOUNT_ADDRESS: &[Rule] =
    &[Rule::invalid("", "self.startsWith('sei1')", "must be a Sei account address, which starts with sei1")];
