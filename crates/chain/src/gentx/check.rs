//! What must be true of a gentx. seid checks it when the chain begins, and panics; here it is told before.

use k256::ecdsa::signature::Verifier as _;
use k256::ecdsa::{Signature, VerifyingKey};

use super::document::{CREATE_VALIDATOR, DIRECT, ED25519, SECP256K1, Tx};
use super::{Decimal, Gentx, sign_bytes};
use crate::address::{Address, AddressError, Prefix};
use crate::coin::{Coin, is_denomination};
use crate::json::Json;
use crate::text::from_base64;

/// The largest file that is read.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The longest name of a validator.
const MAX_MONIKER: usize = 70;

/// Why a gentx is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GentxError {
    /// The file is too large.
    #[error("the gentx has {0} bytes; at most {MAX_BYTES} are read")]
    TooLarge(usize),
    /// It is not written as a gentx.
    #[error("the gentx cannot be read: {0}")]
    Syntax(String),
    /// It has not exactly one message.
    #[error("the gentx has {0} messages; it must have one")]
    Messages(usize),
    /// Its message is another one.
    #[error("the gentx holds a {0}; it must hold a {CREATE_VALIDATOR}")]
    MessageType(String),
    /// An address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Something in it cannot be.
    #[error("{field} of the gentx {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// The signature is not that of the delegator, or not for this chain.
    #[error("the signature of the gentx is not the delegator's for chain {0}; make it again for this chain")]
    Signature(String),
}

fn wrong<T>(field: &'static str, why: &'static str) -> Result<T, GentxError> {
    Err(GentxError::Field { field, why })
}

/// Reads a file. What seid would not know is refused, because it would panic.
pub(super) fn read(file: &[u8]) -> Result<Tx, GentxError> {
    if file.len() > MAX_BYTES {
        return Err(GentxError::TooLarge(file.len()));
    }
    let json = Json::parse(file).map_err(|error| GentxError::Syntax(error.to_string()))?;
    let messages = json.at(&["body", "messages"]).and_then(Json::as_array).unwrap_or_default();
    let [message] = messages else { return Err(GentxError::Messages(messages.len())) };
    match message.at(&["@type"]).and_then(Json::as_text) {
        Some(CREATE_VALIDATOR) => {}
        other => return Err(GentxError::MessageType(other.unwrap_or("message without a type").into())),
    }
    serde_json::from_slice(file).map_err(|error| GentxError::Syntax(error.to_string()))
}

/// The gentx, if everything of it is as it must be on this chain.
pub(super) fn checked(tx: Tx, chain_id: &str) -> Result<Gentx, GentxError> {
    let [message] = tx.body.messages.as_slice() else {
        return Err(GentxError::Messages(tx.body.messages.len()));
    };
    let delegator = Address::parse(Prefix::Account, &message.delegator_address)?;
    let operator = Address::parse(Prefix::Operator, &message.validator_address)?;
    if operator != delegator {
        return wrong("validator_address", "is not the delegator's");
    }
    if tx.body.memo.is_empty() {
        return wrong("memo", "is empty; it is <node id>@<address>:26656");
    }
    if message.description.moniker.len() > MAX_MONIKER {
        return wrong("moniker", "is longer than 70 bytes");
    }
    if message.description == super::Description::default() {
        return wrong("description", "is empty; give the validator a moniker");
    }
    let key = message.pubkey.bytes(ED25519).and_then(|key| <[u8; 32]>::try_from(key).ok());
    let Some(consensus_key) = key.filter(|key| ed25519_dalek::VerifyingKey::from_bytes(key).is_ok()) else {
        return wrong("pubkey", "is no Ed25519 key");
    };
    commission(&message.commission)?;
    let stake = stake(&message.value)?;
    match whole(&message.min_self_delegation) {
        Some(least) if least > 0 && least <= stake.amount => {}
        _ => return wrong("min_self_delegation", "is not between 1 and the stake"),
    }
    signature(&tx, delegator, chain_id)?;
    Ok(Gentx { delegator, consensus_key, stake, tx })
}

fn commission(commission: &super::Commission) -> Result<(), GentxError> {
    if commission.max_rate > Decimal::ONE {
        return wrong("commission.max_rate", "is above 1");
    }
    if commission.rate > commission.max_rate {
        return wrong("commission.rate", "is above commission.max_rate");
    }
    if commission.max_change_rate > commission.max_rate {
        return wrong("commission.max_change_rate", "is above commission.max_rate");
    }
    Ok(())
}

fn stake(value: &super::document::Coin) -> Result<Coin, GentxError> {
    match whole(&value.amount) {
        Some(amount) if amount > 0 && is_denomination(&value.denom) => {
            Ok(Coin { denomination: value.denom.clone(), amount })
        }
        _ => wrong("value", "is no amount above 0"),
    }
}

/// A whole number as seid writes it: a leading zero or sign would be signed as other bytes than are verified.
fn whole(text: &str) -> Option<u128> {
    text.parse::<u128>().ok().filter(|number| number.to_string() == text)
}

fn signature(tx: &Tx, delegator: Address, chain_id: &str) -> Result<(), GentxError> {
    let [signer] = tx.auth_info.signer_infos.as_slice() else {
        return wrong("signer_infos", "has not exactly one entry");
    };
    let [signature] = tx.signatures.as_slice() else {
        return wrong("signatures", "has not exactly one entry");
    };
    if signer.mode_info.single.mode != DIRECT {
        return wrong("mode_info", "is not SIGN_MODE_DIRECT");
    }
    if signer.sequence != 0 {
        return wrong("sequence", "is not 0");
    }
    let Some(public) = signer.public_key.bytes(SECP256K1) else {
        return wrong("public_key", "is no secp256k1 key");
    };
    if public.len() != 33 || Address::of_secp256k1(&public) != delegator {
        return wrong("public_key", "is not the delegator's");
    }
    let verified = || {
        let key = VerifyingKey::from_sec1_bytes(&public).ok()?;
        let signature = Signature::from_slice(&from_base64(signature)?).ok()?;
        key.verify(&sign_bytes(tx, chain_id), &signature).ok()
    };
    verified().ok_or_else(|| GentxError::Signature(chain_id.into()))
}
