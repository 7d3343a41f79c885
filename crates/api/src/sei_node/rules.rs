//! CEL validation rules of a `SeiNode`.
//!
//! All transition rules are on `spec`, the only parent that cannot be absent, and compare both sides. On a leaf they would not be
//! evaluated when its parent is removed: a key could be removed together with its parent in one edit and replaced in the next,
//! and two nodes would sign with one key.
//!
//! They use `a in [b]` instead of `a == b` because the API server rejects rules without a cost bound, and it has none for `==`
//! on optional values.

use crate::rule::Rule;

/// Rules of `spec`: consistency first, then immutability.
pub(crate) const SPEC: &[Rule] = &[
    Rule::invalid(
        "",
        "[has(self.fullNode), has(self.archive), has(self.replayer), has(self.validator)].exists_one(kind, kind)",
        "exactly one of fullNode, archive, replayer and validator must be set",
    ),
    Rule::required(
        ".peers",
        "!has(self.replayer) || (has(self.peers) && size(self.peers) > 0)",
        "a replayer downloads blocks from peers: set at least one peer source",
    ),
    Rule::forbidden(
        ".storage",
        "!has(self.storage) || !has(self.dataVolume) || !has(self.dataVolume.__import__)",
        "storage is not allowed with dataVolume.import, because an imported volume has its own size and class: \
         remove storage or dataVolume.import",
    ),
    Rule::forbidden(
        ".chainId",
        "self.chainId == oldSelf.chainId",
        "chainId is immutable because the node's data belongs to the chain: create a new node instead",
    ),
    Rule::forbidden(
        ".genesisHash",
        "self.?genesisHash.orValue('') in [oldSelf.?genesisHash.orValue('')]",
        "genesisHash is immutable because the genesis file is checked before the node starts: create a new node instead",
    ),
    Rule::forbidden(
        "",
        "has(self.fullNode) == has(oldSelf.fullNode) && has(self.archive) == has(oldSelf.archive) \
         && has(self.replayer) == has(oldSelf.replayer) && has(self.validator) == has(oldSelf.validator)",
        "the kind of a node (fullNode, archive, replayer, validator) is immutable because its volume and keys were \
         created for it: create a new node instead",
    ),
    Rule::forbidden(
        ".dataVolume.import",
        "self.?dataVolume.?__import__.?pvcName.orValue('') in [oldSelf.?dataVolume.?__import__.?pvcName.orValue('')]",
        "dataVolume.import is immutable because the data would be left behind: create a new node instead",
    ),
    Rule::forbidden(
        ".storage.storageClassName",
        "self.?storage.?storageClassName.orValue('') in [oldSelf.?storage.?storageClassName.orValue('')]",
        "storage.storageClassName is immutable because a volume cannot change its class: create a new node instead",
    ),
    Rule::forbidden(
        ".storage.size",
        "!has(oldSelf.storage) || !has(oldSelf.storage.size) || (has(self.storage) && has(self.storage.size))",
        "storage.size cannot be removed once set, because a volume keeps its size: \
         set it to the size of the volume, or larger",
    ),
    Rule::forbidden(
        ".validator.genesisCeremony",
        "!has(self.validator) || !has(oldSelf.validator) \
         || (has(self.validator.genesisCeremony) == has(oldSelf.validator.genesisCeremony) \
         && (!has(self.validator.genesisCeremony) \
         || self.validator.genesisCeremony == oldSelf.validator.genesisCeremony))",
        "genesisCeremony is immutable because the other validators depend on it: create a new node instead",
    ),
    Rule::forbidden(
        ".validator.signingKey",
        "oldSelf.?validator.?signingKey.?secret.?secretName.orValue('') \
         in ['', self.?validator.?signingKey.?secret.?secretName.orValue('')]",
        "a signing key cannot be changed or removed once set, because a key that signs in two places is slashed: \
         delete the node, then create one with the other key",
    ),
    Rule::forbidden(
        ".validator.nodeKey",
        "oldSelf.?validator.?nodeKey.?secret.?secretName.orValue('') \
         in ['', self.?validator.?nodeKey.?secret.?secretName.orValue('')]",
        "a node key cannot be changed or removed once set, because peers identify the node by it: \
         delete the node, then create one with the other key",
    ),
    Rule::forbidden(
        ".validator.operatorKeyring",
        "oldSelf.?validator.?operatorKeyring.?secret.?secretName.orValue('') \
         in ['', self.?validator.?operatorKeyring.?secret.?secretName.orValue('')]",
        "the Secret of the operator keyring cannot be changed or removed once set, because it holds the \
         validator's account: delete the node, then create one with the other keyring",
    ),
    Rule::forbidden(
        ".validator.operatorKeyring",
        "oldSelf.?validator.?operatorKeyring.?secret.?passphraseSecretRef.?secretName.orValue('') \
         in ['', self.?validator.?operatorKeyring.?secret.?passphraseSecretRef.?secretName.orValue('')]",
        "the Secret of the passphrase cannot be changed or removed once set, because the keyring cannot be opened \
         without it: delete the node, then create one with the other passphrase",
    ),
];

/// Rules of `chainId`.
pub(crate) const CHAIN_ID: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "must consist of lower-case letters, digits and dashes, like pacific-1, because it is part of host names and \
     labels",
)];

/// Rules of `externalAddress`.
pub(crate) const EXTERNAL_ADDRESS: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[^ /@]+:[0-9]{1,5}$')",
    "must be host:port, like node.example.com:26656",
)];

/// Rules of the data volume.
pub(crate) const DATA_VOLUME: &[Rule] = &[Rule::forbidden(
    ".deletionPolicy",
    "!has(self.deletionPolicy) || !has(self.__import__)",
    "deletionPolicy is not allowed with import, because an imported claim is never deleted: remove deletionPolicy",
)];

/// Rules of the name of a Secret or a PersistentVolumeClaim.
pub(crate) const OBJECT_NAME: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "must consist of lower-case letters, digits and dashes, and start and end with a letter or digit",
)];

/// Rules of the name of a cluster-scoped object.
pub(crate) const SUBDOMAIN: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must consist of lower-case letters, digits, dashes and dots, and start and end with a letter or digit",
)];

/// Rules of the name of a key in a keyring.
pub(crate) const KEY_NAME: &[Rule] = &[Rule::invalid(
    "",
    "self.matches('^[a-zA-Z0-9_-]+$')",
    "must consist of letters, digits, dashes and underscores",
)];

/// Rules of a source of peers.
pub(crate) const PEER_SOURCE: &[Rule] = &[Rule::invalid(
    "",
    "[has(self.ec2Tags), has(self.static), has(self.label)].exists_one(source, source)",
    "exactly one of ec2Tags, static and label must be set: use one list entry per source",
)];

/// Rules of a static list of peers.
pub(crate) const STATIC_PEERS: &[Rule] = &[Rule::invalid(
    ".addresses",
    "self.addresses.all(address, address.matches('^[^@ ]+@[^@ ]+:[0-9]{1,5}$'))",
    "each peer must be nodeId@host:port, because connections are authenticated by node id",
)];

/// Rules of the sidecar. All containers of a pod share the same ports.
pub(crate) const SIDECAR: &[Rule] = &[Rule::forbidden(
    ".port",
    "!has(self.port) || !(self.port in [1317, 8443, 8545, 8546, 9090, 9300, 26656, 26657, 26660])",
    "port is used by another container of the pod (seid, its exporter or the proxy): \
     choose another port, or omit it to use 7777",
)];

/// Rules of the sidecar's certificate.
pub(crate) const SIDECAR_TLS: &[Rule] = &[
    Rule::invalid(
        "",
        "has(self.issuerName) != has(self.secretName)",
        "exactly one of issuerName and secretName must be set (issuerKind defaults to ClusterIssuer)",
    ),
    Rule::forbidden(
        ".issuerKind",
        "!has(self.issuerKind) || has(self.issuerName)",
        "issuerKind requires issuerName: set issuerName, or remove issuerKind",
    ),
    Rule::invalid(
        ".secretName",
        "!has(self.secretName) || self.secretName.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "must consist of lower-case letters, digits, dashes and dots, and start and end with a letter or digit",
    ),
];

/// Rules of a snapshot source.
pub(crate) const SNAPSHOT_SOURCE: &[Rule] = &[
    Rule::invalid("", "has(self.s3) != has(self.stateSync)", "exactly one of s3 and stateSync must be set"),
    Rule::forbidden(
        ".bootstrapImage",
        "!has(self.bootstrapImage) || has(self.s3)",
        "bootstrapImage requires s3, because it runs until s3.targetHeight: set s3, or remove bootstrapImage",
    ),
];

/// Rules of a replayer.
pub(crate) const REPLAYER: &[Rule] = &[Rule::required(
    ".snapshot.s3",
    "has(self.snapshot.s3)",
    "a replayer must start at a known height: set snapshot.s3.targetHeight",
)];

/// Rules of the export of replay results.
pub(crate) const RESULT_EXPORT: &[Rule] = &[Rule::required(
    "",
    "has(self.shadowResult)",
    "resultExport requires shadowResult: set it, or remove resultExport",
)];

/// Rules of snapshot generation.
pub(crate) const SNAPSHOT_GENERATION: &[Rule] = &[Rule::required(
    "",
    "has(self.tendermint)",
    "snapshotGeneration requires tendermint: set it, or remove snapshotGeneration",
)];

/// Rules of state sync snapshots.
pub(crate) const TENDERMINT_SNAPSHOTS: &[Rule] = &[Rule::invalid(
    ".keepRecent",
    "!has(self.publish) || self.keepRecent >= 2",
    "keepRecent must be at least 2 with publish, because the newest snapshot may be incomplete and is not published",
)];

/// Rules of a validator.
pub(crate) const VALIDATOR: &[Rule] = &[
    Rule::invalid(
        "",
        "has(self.signingKey) == has(self.nodeKey)",
        "signingKey and nodeKey must be set together, because a signing validator needs a stable peer identity",
    ),
    Rule::forbidden(
        ".signingKey",
        "!has(self.signingKey) || !has(self.genesisCeremony)",
        "signingKey is not allowed with genesisCeremony, because the validator generates its own key: \
         remove signingKey and nodeKey, or genesisCeremony",
    ),
    Rule::invalid(
        ".nodeKey.secret.secretName",
        "!has(self.signingKey) || !has(self.nodeKey) \
         || self.signingKey.secret.secretName != self.nodeKey.secret.secretName",
        "signing key and node key must be in different Secrets, so that access to one does not grant access to the \
         other",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.secretName",
        "!has(self.operatorKeyring) || !has(self.signingKey) \
         || self.operatorKeyring.secret.secretName != self.signingKey.secret.secretName",
        "operator keyring and signing key must be in different Secrets, so that access to one does not grant \
         access to the other",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.secretName",
        "!has(self.operatorKeyring) || !has(self.nodeKey) \
         || self.operatorKeyring.secret.secretName != self.nodeKey.secret.secretName",
        "operator keyring and node key must be in different Secrets, so that access to one does not grant access \
         to the other",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.passphraseSecretRef.secretName",
        "!has(self.operatorKeyring) \
         || self.operatorKeyring.secret.secretName != self.operatorKeyring.secret.passphraseSecretRef.secretName",
        "operator keyring and its passphrase must be in different Secrets, because access to both allows signing",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.passphraseSecretRef.secretName",
        "!has(self.operatorKeyring) || !has(self.signingKey) \
         || self.operatorKeyring.secret.passphraseSecretRef.secretName != self.signingKey.secret.secretName",
        "passphrase and signing key must be in different Secrets, so that access to one does not grant access to \
         the other",
    ),
    Rule::invalid(
        ".operatorKeyring.secret.passphraseSecretRef.secretName",
        "!has(self.operatorKeyring) || !has(self.nodeKey) \
         || self.operatorKeyring.secret.passphraseSecretRef.secretName != self.nodeKey.secret.secretName",
        "passphrase and node key must be in different Secrets, so that access to one does not grant access to the \
         other",
    ),
];
