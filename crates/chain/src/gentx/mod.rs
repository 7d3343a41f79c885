//! Gentx: the signed genesis transaction that creates a validator.

mod check;
mod decimal;
mod document;
mod wire;

use prost::Message as _;

use crate::account::AccountKey;
use crate::address::{Address, Prefix};
use crate::coin::Coin;
use crate::json::Json;
use crate::text::base64;

pub use check::GentxError;
pub use decimal::{Decimal, InvalidDecimal};
use document::{
    AuthInfo, Body, Commission, CreateValidator, DIRECT, Description, ED25519, Fee, ModeInfo, PublicKey,
    SECP256K1, SignerInfo, Single, Tx,
};

/// Parameters of a gentx.
#[derive(Clone, Debug)]
pub struct GentxParams<'a> {
    /// Chain ID. The signature is valid for this chain only.
    pub chain_id: &'a str,
    /// Moniker, at most 70 bytes.
    pub moniker: &'a str,
    /// Node ID.
    pub node_id: &'a str,
    /// Node address. It is not dialed but must not be empty.
    pub address: &'a str,
    /// Consensus public key.
    pub consensus_key: [u8; 32],
    /// Self-delegation.
    pub stake: &'a Coin,
    /// Gas limit. 0 suffices, because gas is not metered at genesis.
    pub gas_limit: u64,
}

/// Signed and validated gentx.
#[derive(Clone, Debug, PartialEq)]
pub struct Gentx {
    tx: Tx,
    delegator: Address,
    consensus_key: [u8; 32],
    stake: Coin,
}

impl Gentx {
    /// Creates a gentx signed with the key of the account that pays the stake.
    pub fn sign(declaration: &GentxParams<'_>, key: &AccountKey) -> Result<Self, GentxError> {
        let delegator = key.address();
        let message = CreateValidator {
            type_url: document::CREATE_VALIDATOR.into(),
            description: Description { moniker: declaration.moniker.into(), ..Description::default() },
            commission: Commission {
                rate: Decimal::from_percent(10),
                max_rate: Decimal::from_percent(20),
                max_change_rate: Decimal::from_percent(1),
            },
            min_self_delegation: "1".into(),
            delegator_address: delegator.to_bech32(Prefix::Account),
            validator_address: delegator.to_bech32(Prefix::Operator),
            pubkey: PublicKey { type_url: ED25519.into(), key: base64(&declaration.consensus_key) },
            value: document::Coin {
                denom: declaration.stake.denomination.clone(),
                amount: declaration.stake.amount.to_string(),
            },
        };
        let mut tx = Tx {
            body: Body {
                messages: vec![message],
                memo: format!("{}@{}:{}", declaration.node_id, declaration.address, api::names::port::P2P),
                timeout_height: 0,
                extension_options: [],
                non_critical_extension_options: [],
            },
            auth_info: AuthInfo {
                signer_infos: vec![SignerInfo {
                    public_key: PublicKey { type_url: SECP256K1.into(), key: base64(&key.public()) },
                    mode_info: ModeInfo { single: Single { mode: DIRECT.into() } },
                    sequence: 0,
                }],
                fee: Fee {
                    amount: Vec::new(),
                    gas_limit: declaration.gas_limit,
                    payer: String::new(),
                    granter: String::new(),
                    gas_estimate: 0,
                },
            },
            signatures: Vec::new(),
        };
        tx.signatures.push(base64(&key.sign(&sign_bytes(&tx, declaration.chain_id))));
        check::validate(tx, declaration.chain_id)
    }

    /// Parses a gentx file and performs every check, including the signature, on which seid would panic at genesis.
    pub fn parse(file: &[u8], chain_id: &str) -> Result<Self, GentxError> {
        check::validate(check::parse(file)?, chain_id)
    }

    /// Renders the file, a single line.
    #[must_use]
    pub fn file(&self) -> String {
        self.to_json().compact() + "\n"
    }

    /// Returns the JSON to embed into the genesis file.
    #[must_use]
    pub fn to_json(&self) -> Json {
        // Serializing strings and numbers does not fail, and neither does parsing the result.
        let text = serde_json::to_vec(&self.tx).unwrap_or_default();
        Json::parse(&text).unwrap_or(Json::Null)
    }

    /// Returns the account that pays the stake.
    #[must_use]
    pub fn delegator(&self) -> Address {
        self.delegator
    }

    /// Returns the consensus public key.
    #[must_use]
    pub fn consensus_key(&self) -> &[u8; 32] {
        &self.consensus_key
    }

    /// Returns the self-delegation.
    #[must_use]
    pub fn stake(&self) -> &Coin {
        &self.stake
    }

    /// Returns the commission rate.
    #[must_use]
    pub fn commission_rate(&self) -> Decimal {
        self.tx.body.messages.first().map_or(Decimal::default(), |message| message.commission.rate)
    }

    /// Returns the length of the memo in bytes.
    pub(crate) fn memo_length(&self) -> usize {
        self.tx.body.memo.len()
    }
}

/// Returns the bytes to sign. The account number is 0 for every validator, because no accounts exist before genesis.
fn sign_bytes(tx: &Tx, chain_id: &str) -> Vec<u8> {
    wire::SignDoc {
        body_bytes: tx.body.to_wire().encode_to_vec(),
        auth_info_bytes: tx.auth_info.to_wire().encode_to_vec(),
        chain_id: chain_id.into(),
        account_number: 0,
    }
    .encode_to_vec()
}

#[cfg(test)]
mod tests;
