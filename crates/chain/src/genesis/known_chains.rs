//! Public Sei chains.

/// Public chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownChain {
    /// Chain ID.
    pub chain_id: &'static str,
    /// Public RPC endpoint.
    pub rpc: &'static str,
    /// SHA-256 of the genesis file in lower-case hexadecimal, if verified.
    pub genesis_hash: Option<&'static str>,
}

/// Public chains.
pub const KNOWN_CHAINS: [KnownChain; 3] = [
    KnownChain {
        chain_id: "pacific-1",
        rpc: "https://rpc.sei-apis.com",
        genesis_hash: Some("d7ce8349b9e26573951c8c19afe018ee721cddcedb2d5a8df6f712ecbccc3428"),
    },
    // The genesis file in the reference library differs from the chain's.
    KnownChain { chain_id: "atlantic-2", rpc: "https://rpc-testnet.sei-apis.com", genesis_hash: None },
    KnownChain {
        chain_id: "arctic-1",
        rpc: "https://rpc-arctic-1.sei-apis.com",
        genesis_hash: Some("8ef5b0c01c1cde65be22a0f501d1663c55b3a900b46ecb72a5ccd823040bf035"),
    },
];
