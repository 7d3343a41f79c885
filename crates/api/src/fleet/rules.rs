//! What the API server refuses of a fleet, and what it says then. Rules about changes are all on `spec`: see
//! `sei_node::rules`, whose own hold below `template.spec`, too.

use crate::rule::Rule;

/// On `spec`: what belongs together, then what cannot change.
pub(crate) const SPEC: &[Rule] = &[
    Rule::forbidden(
        ".replicas",
        "self.replicas <= 1 || !has(self.template.spec.validator) || !has(self.template.spec.validator.signingKey)",
        "several nodes would sign with the one key of the template, which is slashed as double signing: \
         keep replicas at 1, or make one fleet per key",
    ),
    Rule::forbidden(
        ".replicas",
        "self.replicas <= 1 || !self.template.spec.?dataVolume.?__import__.hasValue()",
        "several nodes would write to the one volume of the template, which destroys it: \
         keep replicas at 1, or remove template.spec.dataVolume.import",
    ),
    Rule::required(
        ".template.spec.validator",
        "!has(self.genesis) || has(self.template.spec.validator)",
        "only validators can make a new chain: set template.spec.validator, or remove genesis",
    ),
    Rule::forbidden(
        ".template.spec.validator.signingKey",
        "!has(self.genesis) || !self.template.spec.?validator.?signingKey.hasValue()",
        "validators of a new chain make their own keys: remove signingKey and nodeKey, or genesis",
    ),
    Rule::forbidden(
        ".template.spec.validator.genesisCeremony",
        "!self.template.spec.?validator.?genesisCeremony.hasValue()",
        "each node's part in a ceremony is written by the operator: remove it, and describe the new chain in genesis",
    ),
    Rule::invalid(
        ".genesis.chainId",
        "!has(self.genesis) || self.genesis.chainId == self.template.spec.chainId",
        "the new chain and the chain of its nodes differ: make it the same as template.spec.chainId",
    ),
    Rule::forbidden(
        ".genesis",
        "has(self.genesis) == has(oldSelf.genesis) && (!has(self.genesis) \
         || (self.genesis.chainId == oldSelf.genesis.chainId \
         && self.genesis.stakingAmount == oldSelf.genesis.stakingAmount \
         && self.genesis.accountBalance == oldSelf.genesis.accountBalance))",
        "a new chain, its stakes and its balances are decided when the fleet is created, because every node has taken them up: \
         create a new fleet instead",
    ),
];

/// On how nodes are brought to a changed template.
pub(crate) const UPDATE_STRATEGY: &[Rule] = &[
    Rule::required(
        ".hardFork",
        "self.type != 'HardFork' || has(self.hardFork)",
        "a hard fork happens at a height: set hardFork.haltHeight",
    ),
    Rule::forbidden(
        ".maxUnavailable",
        "!has(self.maxUnavailable) || self.type == 'InPlace'",
        "only an update in place goes step by step: remove maxUnavailable, or use type InPlace",
    ),
    Rule::invalid(
        ".maxUnavailable",
        "!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable >= 1 \
         : self.maxUnavailable.matches('^([1-9][0-9]?|100)%$'))",
        "how many nodes may be away at once is a number from 1 or a percentage from 1% to 100%",
    ),
];

/// On the id of a new chain.
pub(crate) const GENESIS_CHAIN_ID: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9][a-z0-9-]*[a-z0-9]$')",
    "a chain id is part of host names and labels: use at least two lower-case letters, digits and dashes, as in devnet-1",
)];

/// On a length of time.
pub(crate) const DURATION: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$')",
    "a length of time has numbers and units, as in 90s, 15m or 1h30m",
)];

/// On the address of an account.
pub(crate) const ACCOUNT_ADDRESS: &[Rule] =
    &[Rule::invalid("", "self.startsWith('sei1')", "an account of a Sei chain begins with sei1")];
