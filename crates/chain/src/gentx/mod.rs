//! The transaction by which a validator joins a new chain.

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
pub use decimal::{Decimal, NoDecimal};
use document::{
    AuthInfo, Body, Commission, CreateValidator, DIRECT, Description, ED25519, Fee, ModeInfo, PublicKey,
    SECP256K1, SignerInfo, Single, Tx,
};

/// What a validator says of itself when a chain begins.
#[derive(Clone, Debug)]
pub struct Declaration<'a> {
    /// The chain; the signature is good for no other.
    pub chain_id: &'a str,
    /// The validator's name, at most 70 bytes.
    pub moniker: &'a str,
    /// The name of its node among peers.
    pub node_id: &'a str,
    /// The address of its node. Nobody connects to it, but it must not be empty.
    pub address: &'a str,
    /// The key that it signs blocks with.
    pub consensus_key: [u8; 32],
    /// What it stakes.
    pub stake: &'a Coin,
    /// 0 is enough: nothing is metered before the first block.
    pub gas_limit: u64,
}

/// A signed declaration that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Gentx {
    tx: Tx,
    delegator: Address,
    consensus_key: [u8; 32],
    stake: Coin,
}

impl Gentx {
    /// Signs a declaration with the key of the account that pays the stake.
    pub fn sign(declaration: &Declaration<'_>, key: &AccountKey) -> Result<Self, GentxError> {
        let delegator = key.address();
        let message = CreateValidator {
            type_url: document::CREATE_VALIDATOR.into(),
            description: Description { moniker: declaration.moniker.into(), ..Description::default() },
            commission: Commission {
                rate: Decimal::percent(10),
                max_rate: Decimal::percent(20),
                max_change_rate: Decimal::percent(1),
            },
            min_self_delegation: "1".into(),
            delegator_address: delegator.to_text(Prefix::Account),
            validator_address: delegator.to_text(Prefix::Operator),
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
        check::checked(tx, declaration.chain_id)
    }

    /// Reads a file, and checks everything that seid would panic at when the chain begins, the signature included.
    pub fn parse(file: &[u8], chain_id: &str) -> Result<Self, GentxError> {
        check::checked(check::read(file)?, chain_id)
    }

    /// The file: one line.
    #[must_use]
    pub fn file(&self) -> String {
        self.to_json().compact() + "\n"
    }

    /// The document, as the genesis file holds it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        // Writing structures of texts and numbers cannot fail, nor can reading what was written.
        let text = serde_json::to_vec(&self.tx).unwrap_or_default();
        Json::parse(&text).unwrap_or(Json::Null)
    }

    /// The account that pays the stake.
    #[must_use]
    pub fn delegator(&self) -> Address {
        self.delegator
    }

    /// The key that the validator signs blocks with.
    #[must_use]
    pub fn consensus_key(&self) -> &[u8; 32] {
        &self.consensus_key
    }

    /// What it stakes.
    #[must_use]
    pub fn stake(&self) -> &Coin {
        &self.stake
    }

    /// The part of rewards that it keeps.
    #[must_use]
    pub fn commission_rate(&self) -> Decimal {
        self.tx.body.messages.first().map_or(Decimal::default(), |message| message.commission.rate)
    }

    /// How long the memo is, in bytes.
    pub(crate) fn memo_length(&self) -> usize {
        self.tx.body.memo.len()
    }
}

/// What is signed. Every validator signs with account number 0: there are no accounts yet.
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
