//! Protobuf messages of a gentx. seid re-encodes the JSON before it verifies the signature, so the encoding must be canonical:
//! ascending fields, zero values omitted, empty messages present.

use prost::Message;

/// Message with its type URL.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

impl Any {
    pub(super) fn new(type_url: &str, message: &impl Message) -> Self {
        Self { type_url: type_url.into(), value: message.encode_to_vec() }
    }
}

/// Public key of either type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PublicKey {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Coin {
    #[prost(string, tag = "1")]
    pub denom: String,
    #[prost(string, tag = "2")]
    pub amount: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Description {
    #[prost(string, tag = "1")]
    pub moniker: String,
    #[prost(string, tag = "2")]
    pub identity: String,
    #[prost(string, tag = "3")]
    pub website: String,
    #[prost(string, tag = "4")]
    pub security_contact: String,
    #[prost(string, tag = "5")]
    pub details: String,
}

/// Rates are integers, multiplied by 10^18.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Commission {
    #[prost(string, tag = "1")]
    pub rate: String,
    #[prost(string, tag = "2")]
    pub max_rate: String,
    #[prost(string, tag = "3")]
    pub max_change_rate: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateValidator {
    #[prost(message, optional, tag = "1")]
    pub description: Option<Description>,
    #[prost(message, optional, tag = "2")]
    pub commission: Option<Commission>,
    #[prost(string, tag = "3")]
    pub min_self_delegation: String,
    #[prost(string, tag = "4")]
    pub delegator_address: String,
    #[prost(string, tag = "5")]
    pub validator_address: String,
    #[prost(message, optional, tag = "6")]
    pub pubkey: Option<Any>,
    #[prost(message, optional, tag = "7")]
    pub value: Option<Coin>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxBody {
    #[prost(message, repeated, tag = "1")]
    pub messages: Vec<Any>,
    #[prost(string, tag = "2")]
    pub memo: String,
    #[prost(uint64, tag = "3")]
    pub timeout_height: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Single {
    #[prost(int32, tag = "1")]
    pub mode: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModeInfo {
    #[prost(message, optional, tag = "1")]
    pub single: Option<Single>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SignerInfo {
    #[prost(message, optional, tag = "1")]
    pub public_key: Option<Any>,
    #[prost(message, optional, tag = "2")]
    pub mode_info: Option<ModeInfo>,
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Fee {
    #[prost(message, repeated, tag = "1")]
    pub amount: Vec<Coin>,
    #[prost(uint64, tag = "2")]
    pub gas_limit: u64,
    #[prost(string, tag = "3")]
    pub payer: String,
    #[prost(string, tag = "4")]
    pub granter: String,
    /// Sei extension.
    #[prost(uint64, tag = "5")]
    pub gas_estimate: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthInfo {
    #[prost(message, repeated, tag = "1")]
    pub signer_infos: Vec<SignerInfo>,
    #[prost(message, optional, tag = "2")]
    pub fee: Option<Fee>,
}

/// Signed message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SignDoc {
    #[prost(bytes = "vec", tag = "1")]
    pub body_bytes: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub auth_info_bytes: Vec<u8>,
    #[prost(string, tag = "3")]
    pub chain_id: String,
    #[prost(uint64, tag = "4")]
    pub account_number: u64,
}
