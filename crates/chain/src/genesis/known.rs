//! Chains that everybody knows.

/// A chain that everybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub chain_id: &'static str,
    /// A node that anybody may ask.
    pub rpc: &'static str,
    /// The SHA-256 of its genesis file, in lower-case hexadecimal digits, where it is known for sure.
    pub genesis_hash: Option<&'static str>,
}

/// All of them.
pub const KNOWN: [Known; 3] = [
    Known {
        chain_id: "pacific-1",
        rpc: "https://rpc.sei-apis.com",
        genesis_hash: Some("d7ce8349b9e26573951c8c19afe018ee721cddcedb2d5a8df6f712ecbccc3428"),
    },
    // The file that the reference library has is not that of the chain.
    Known { chain_id: "atlantic-2", rpc: "https://rpc-testnet.sei-apis.com", genesis_hash: None },
    Known {
        chain_id: "arctic-1",
        rpc: "https://rpc-arctic-1.sei-apis.com",
        genesis_hash: Some("8ef5b0c01c1cde65be22a0f501d1663c55b3a900b46ecb72a5ccd823040bf035"),
    },
];
