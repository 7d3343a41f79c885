//! Gentx validation. seid performs these checks at genesis and panics on failure; here they return errors earlier.

use k256::ecdsa::signature::Verifier as _;
use k256::ecdsa::{Signature, VerifyingKey};

use super::document::{CREATE_VALIDATOR, DIRECT, ED25519, SECP256K1, Tx};
use super::{Decimal, Gentx, sign_bytes};
use crate::address::{Address, AddressError, Prefix};
use crate::coin::{Coin, is_denomination};
use crate::json::Json;
use crate::text::from_base64;

/// Maximum file size.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Maximum length of a moniker, in bytes.
const MAX_MONIKER: usize = 70;

/// Error returned for an invalid gentx.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GentxError {
    /// File too large.
    #[error("gentx too large: {0} bytes, maximum {MAX_BYTES}")]
    TooLarge(usize),
    /// Malformed.
    #[error("failed to parse gentx: {0}")]
    Syntax(String),
    /// Not exactly one message.
    #[error("gentx has {0} messages, expected exactly one")]
    Messages(usize),
    /// Unexpected message type.
    #[error("gentx contains {0}, expected {CREATE_VALIDATOR}")]
    MessageType(String),
    /// Malformed address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Invalid field.
    #[error("invalid gentx: {field} {why}")]
    Field {
        /// Field.
        field: &'static str,
        /// Reason, a clause that follows the field.
        why: &'static str,
    },
    /// The signature is not by the delegator or not for this chain.
    #[error("gentx is not signed by the delegator for chain {0}; regenerate it for this chain")]
    Signature(String),
}

fn invalid<T>(field: &'static str, why: &'static str) -> Result<T, GentxError> {
    Err(GentxError::Field { field, why })
}

/// Parses a file. Rejects unknown fields, on which seid would panic.
pub(super) fn parse(file: &[u8]) -> Result<Tx, GentxError> {
    if file.len() > MAX_BYTES {
        return Err(GentxError::TooLarge(file.len()));
    }
    let json = Json::parse(file).map_err(|error| GentxError::Syntax(error.to_string()))?;
    let messages = json.at(&["body", "messages"]).and_then(Json::as_array).unwrap_or_default();
    let [message] = messages else { return Err(GentxError::Messages(messages.len())) };
    match message.at(&["@type"]).and_then(Json::as_text) {
        Some(CREATE_VALIDATOR) => {}
        other => return Err(GentxError::MessageType(other.unwrap_or("a message without a type").into())),
    }
    serde_json::from_slice(file).map_err(|error| GentxError::Syntax(error.to_string()))
}

/// Validates a gentx for a chain.
pub(super) fn validate(tx: Tx, chain_id: &str) -> Result<Gentx, GentxError> {
    let [message] = tx.body.messages.as_slice() else {
        return Err(GentxError::Messages(tx.body.messages.len()));
    };
    let delegator = Address::parse(Prefix::Account, &message.delegator_address)?;
    let operator = Address::parse(Prefix::Operator, &message.validator_address)?;
    if operator != delegator {
        return invalid("validator_address", "does not match delegator_address");
    }
    if tx.body.memo.is_empty() {
        return invalid("memo", "is empty; expected <node id>@<address>:26656");
    }
    if message.description.moniker.len() > MAX_MONIKER {
        return invalid("moniker", "is longer than 70 bytes");
    }
    if message.description == super::Description::default() {
        return invalid("description", "is empty; set a moniker");
    }
    let key = message.pubkey.bytes(ED25519).and_then(|key| <[u8; 32]>::try_from(key).ok());
    let Some(consensus_key) = key.filter(|key| ed25519_dalek::VerifyingKey::from_bytes(key).is_ok()) else {
        return invalid("pubkey", "is not an Ed25519 key");
    };
    check_commission(&message.commission)?;
    let stake = parse_stake(&message.value)?;
    match parse_integer(&message.min_self_delegation) {
        Some(min) if min > 0 && min <= stake.amount => {}
        _ => return invalid("min_self_delegation", "is not between 1 and the stake"),
    }
    check_signature(&tx, delegator, chain_id)?;
    Ok(Gentx { delegator, consensus_key, stake, tx })
}

fn check_commission(commission: &super::Commission) -> Result<(), GentxError> {
    if commission.max_rate > Decimal::ONE {
        return invalid("commission.max_rate", "is above 1");
    }
    if commission.rate > commission.max_rate {
        return invalid("commission.rate", "is above commission.max_rate");
    }
    if commission.max_change_rate > commission.max_rate {
        return invalid("commission.max_change_rate", "is above commission.max_rate");
    }
    Ok(())
}

fn parse_stake(value: &super::document::Coin) -> Result<Coin, GentxError> {
    match parse_integer(&value.amount) {
        Some(amount) if amount > 0 && is_denomination(&value.denom) => {
            Ok(Coin { denomination: value.denom.clone(), amount })
        }
        _ => invalid("value", "is not a positive amount"),
    }
}

/// Parses an integer in canonical form. With a leading zero or sign, the signed and the verified bytes would differ.
fn parse_integer(text: &str) -> Option<u128> {
    text.parse::<u128>().ok().filter(|number| number.to_string() == text)
}

fn check_signature(tx: &Tx, delegator: Address, chain_id: &str) -> Result<(), GentxError> {
    let [signer] = tx.auth_info.signer_infos.as_slice() else {
        return invalid("signer_infos", "must have exactly one entry");
    };
    let [signature] = tx.signatures.as_slice() else {
        return invalid("signatures", "must have exactly one entry");
    };
    if signer.mode_info.single.mode != DIRECT {
        return invalid("mode_info", "is not SIGN_MODE_DIRECT");
    }
    if signer.sequence != 0 {
        return invalid("sequence", "is not 0");
    }
    let Some(public) = signer.public_key.bytes(SECP256K1) else {
        return invalid("public_key", "is not a secp256k1 key");
    };
    if public.len() != 33 || Address::from_secp256k1(&public) != delegator {
        return invalid("public_key", "does not match delegator_address");
    }
    let verify = || {
        let key = VerifyingKey::from_sec1_bytes(&public).ok()?;
        let signature = Signature::from_slice(&from_base64(signature)?).ok()?;
        key.verify(&sign_bytes(tx, chain_id), &signature).ok()
    };
    verify().ok_or_else(|| GentxError::Signature(chain_id.into()))
}
