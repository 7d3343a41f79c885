//! What the API server refuses of a node, and what it says then.
//!
//! Rules about changes are all on `spec`, the one parent that cannot be absent, and ask about both sides. On a leaf they
//! would not be evaluated when the leaf's parent goes: a key could be removed with its parent in one edit and come back as
//! another in the next, and two nodes would sign with one key.
//!
//! They ask `a in [b]` where `a == b` would do: the API server refuses a rule whose cost it cannot bound, and it knows no
//! bound for `==` on what may be absent.

use crate::rule::Rule;

/// On `spec`: what belongs together, then what cannot change.
pub(crate) const SPEC: &[Rule] = &[
    Rule::invalid(
        "",
        "[has(self.fullNode), has(self.archive), has(self.replayer), has(self.validator)].exists_one(kind, kind)",
        "a node is of exactly one kind: set one of fullNode, archive, replayer and validator",
    ),
    Rule::required(
        ".peers",
        "!has(self.replayer) || (has(self.peers) && size(self.peers) > 0)",
        "a replayer fetches the blocks that it replays from peers: give at least one source",
    ),
    Rule::forbidden(
        ".chainId",
        "self.chainId == oldSelf.chainId",
        "a node cannot move to another chain, because its data belongs to the first one: create a new node instead",
    ),
    Rule::forbidden(
        "",
        "has(self.fullNode) == has(oldSelf.fullNode) && has(self.archive) == has(oldSelf.archive) \
         && has(self.replayer) == has(oldSelf.replayer) && has(self.validator) == has(oldSelf.validator)",
        "the kind of a node (fullNode, archive, replayer, validator) cannot change, because its volume and keys were made for it: \
         create a new node instead",
    ),
    Rule::forbidden(
        ".dataVolume.import",
        "self.?dataVolume.?__import__.?pvcName.orValue('') in [oldSelf.?dataVolume.?__import__.?pvcName.orValue('')]",
        "the volume of a node is decided when it is created, because its data would be left behind: create a new node instead",
    ),
    Rule::forbidden(
        ".validator.genesisCeremony",
        "!has(self.validator) || !has(oldSelf.validator) \
         || (has(self.validator.genesisCeremony) == has(oldSelf.validator.genesisCeremony) \
         && (!has(self.validator.genesisCeremony) \
         || self.validator.genesisCeremony == oldSelf.validator.genesisCeremony))",
        "a node's part in a genesis ceremony cannot change, because the others have counted on it: create a new node instead",
    ),
    Rule::forbidden(
        ".validator.signingKey",
        "oldSelf.?validator.?signingKey.?secret.?secretName.orValue('') \
         in ['', self.?validator.?signingKey.?secret.?secretName.orValue('')]",
        "a signing key that was set cannot be changed or removed, because a key that signs in two places is slashed: \
         delete the node, then create one with the other key",
    ),
    Rule::forbidden(
        ".validator.nodeKey",
        "oldSelf.?validator.?nodeKey.?secret.?secretName.orValue('') \
         in ['', self.?validator.?nodeKey.?secret.?secretName.orValue('')]",
        "a node key that was set cannot be changed or removed, because peers know the node by it: \
         delete the node, then create one with the other key",
    ),
    Rule::forbidden(
        ".validator.operatorKeyring",
        "oldSelf.?validator.?operatorKeyring.?secret.?secretName.orValue('') \
         in ['', self.?validator.?operatorKeyring.?secret.?secretName.orValue('')]",
        "the Secret of an operator keyring that was set cannot be changed or removed, because the validator's account is in it: \
         delete the node, then create one with the other keyring",
    ),
    Rule::forbidden(
        ".validator.operatorKeyring",
        "oldSelf.?validator.?operatorKeyring.?secret.?passphraseSecretRef.?secretName.orValue('') \
         in ['', self.?validator.?operatorKeyring.?secret.?passphraseSecretRef.?secretName.orValue('')]",
        "the Secret of a passphrase that was set cannot be changed or removed, because the keyring opens with no other: \
         delete the node, then create one with the other passphrase",
    ),
];

/// On `chainId`.
pub(crate) const CHAIN_ID: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "a chain id is part of host names and labels: use lower-case letters, digits and dashes, as in pacific-1",
)];

/// On `externalAddress`.
pub(crate) const EXTERNAL_ADDRESS: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[^ /@]+:[0-9]{1,5}$')",
    "an external address is host:port, as in node.example.com:26656",
)];

/// On the name of a Secret or a PersistentVolumeClaim.
pub(crate) const OBJECT_NAME: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "a name has lower-case letters, digits and dashes, and begins and ends with a letter or digit",
)];

/// On the name of a key in a keyring.
pub(crate) const KEY_NAME: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-zA-Z0-9_-]+$')",
    "the name of a key has letters, digits, dashes and underscores",
)];

/// On a source of peers.
pub(crate) const PEER_SOURCE: &[Rule] = &[Rule::invalid(
    "",
    "[has(self.ec2Tags), has(self.static), has(self.label)].exists_one(source, source)",
    "a source of peers is of exactly one kind: set one of ec2Tags, static and label; use two sources for two kinds",
)];

/// On a fixed list of peers.
pub(crate) const STATIC_PEERS: &[Rule] = &[Rule::invalid(
    ".addresses",
    "self.addresses.all(address, address.matches('^[^@ ]+@[^@ ]+:[0-9]{1,5}$'))",
    "a peer is nodeId@host:port, because a connection is accepted only from the node with that id",
)];

/// On the sidecar. All containers of a pod share its ports.
pub(crate) const SIDECAR: &[Rule] = &[Rule::forbidden(
    ".port",
    "!has(self.port) || !(self.port in [1317, 8443, 8545, 8546, 9090, 9300, 26656, 26657, 26660])",
    "the port is taken by another container of the pod (seid, its exporter or the proxy): choose another, or leave it out for 7777",
)];

/// On the sidecar's certificate.
pub(crate) const SIDECAR_TLS: &[Rule] = &[
    Rule::invalid(
        "",
        "has(self.issuerName) != has(self.secretName)",
        "a certificate comes from one place: set either issuerName (with issuerKind, if it is not a ClusterIssuer) or secretName",
    ),
    Rule::forbidden(
        ".issuerKind",
        "!has(self.issuerKind) || has(self.issuerName)",
        "issuerKind says what issuerName is, and there is no issuerName: set it, or remove issuerKind",
    ),
    Rule::invalid(
        ".secretName",
        "!has(self.secretName) || self.secretName.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "a Secret's name has lower-case letters, digits, dashes and dots, and begins and ends with a letter or digit",
    ),
];

/// On what a node starts from.
pub(crate) const SNAPSHOT_SOURCE: &[Rule] = &[
    Rule::invalid(
        "",
        "has(self.s3) != has(self.stateSync)",
        "a snapshot comes from one place: set either s3 or stateSync",
    ),
    Rule::forbidden(
        ".bootstrapImage",
        "!has(self.bootstrapImage) || has(self.s3)",
        "a bootstrap image runs until s3.targetHeight, and there is no s3: set it, or remove bootstrapImage",
    ),
];

/// On a replayer.
pub(crate) const REPLAYER: &[Rule] = &[Rule::required(
    ".snapshot.s3",
    "has(self.snapshot.s3)",
    "a replayer starts at a known height, which only a snapshot from S3 has: set snapshot.s3.targetHeight",
)];

/// On what is done with the results of a replay.
pub(crate) const RESULT_EXPORT: &[Rule] = &[Rule::required(
    "",
    "has(self.shadowResult)",
    "an export without a destination does nothing: set shadowResult, or remove resultExport",
)];

/// On the snapshots that a node makes.
pub(crate) const SNAPSHOT_GENERATION: &[Rule] = &[Rule::required(
    "",
    "has(self.tendermint)",
    "nothing is generated unless it is said what: set tendermint, or remove snapshotGeneration",
)];

/// On the snapshots that a node makes for state sync.
pub(crate) const TENDERMINT_SNAPSHOTS: &[Rule] = &[Rule::invalid(
    ".keepRecent",
    "!has(self.publish) || self.keepRecent >= 2",
    "only a snapshot that has a newer one is finished and can be published: keep at least 2",
)];

/// On a validator.
pub(crate) const VALIDATOR: &[Rule] = &[
    Rule::invalid(
        "",
        "has(self.signingKey) == has(self.nodeKey)",
        "signingKey and nodeKey go together, because a validator that signs must be the node its peers know: set both or neither",
    ),
    Rule::forbidden(
        ".signingKey",
        "!has(self.signingKey) || !has(self.genesisCeremony)",
        "a validator of a genesis ceremony makes its own key: remove signingKey and nodeKey, or genesisCeremony",
    ),
    Rule::invalid(
        ".nodeKey.secret.secretName",
        "!has(self.signingKey) || !has(self.nodeKey) \
         || self.signingKey.secret.secretName != self.nodeKey.secret.secretName",
        "signing key and node key are in one Secret, so who may read one may read both: use two Secrets",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.secretName",
        "!has(self.operatorKeyring) || !has(self.signingKey) \
         || self.operatorKeyring.secret.secretName != self.signingKey.secret.secretName",
        "operator keyring and signing key are in one Secret, so who may read one may read both: use two Secrets",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.secretName",
        "!has(self.operatorKeyring) || !has(self.nodeKey) \
         || self.operatorKeyring.secret.secretName != self.nodeKey.secret.secretName",
        "operator keyring and node key are in one Secret, so who may read one may read both: use two Secrets",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.passphraseSecretRef.secretName",
        "!has(self.operatorKeyring) \
         || self.operatorKeyring.secret.secretName != self.operatorKeyring.secret.passphraseSecretRef.secretName",
        "operator keyring and its passphrase are in one Secret, so whoever reads it can sign: use two Secrets",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.passphraseSecretRef.secretName",
        "!has(self.operatorKeyring) || !has(self.signingKey) \
         || self.operatorKeyring.secret.passphraseSecretRef.secretName != self.signingKey.secret.secretName",
        "passphrase and signing key are in one Secret, so who may read one may read both: use two Secrets",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.passphraseSecretRef.secretName",
        "!has(self.operatorKeyring) || !has(self.nodeKey) \
         || self.operatorKeyring.secret.passphraseSecretRef.secretName != self.nodeKey.secret.secretName",
        "passphrase and node key are in one Secret, so who may read one may read both: use two Secrets",
    ),
];
