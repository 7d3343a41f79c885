//! Addresses: who somebody is on the chain.

use std::fmt;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use k256::ecdsa::VerifyingKey;
use ripemd::Ripemd160;
use sha2::{Digest as _, Sha256};
use sha3::Keccak256;

use crate::text::hex;

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address; one begins with {1}1 and ends with a checksum that fits")]
pub struct AddressError(String, &'static str);

/// What an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// Of an account.
    Account,
    /// Of who runs a validator: the account by another name.
    Operator,
    /// Of the key that signs blocks.
    Consensus,
}

impl Prefix {
    /// What stands before the first `1`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Account => "sei",
            Self::Operator => "seivaloper",
            Self::Consensus => "seivalcons",
        }
    }
}

/// An address of 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address([u8; 20]);

impl Address {
    /// The address of an Ed25519 key: of a node, or of a validator's votes.
    #[must_use]
    pub fn of_ed25519(public: &[u8; 32]) -> Self {
        let mut address = [0; 20];
        address.copy_from_slice(&Sha256::digest(public)[..20]);
        Self(address)
    }

    /// The address of an account's key, 33 bytes.
    #[must_use]
    pub fn of_secp256k1(public: &[u8]) -> Self {
        Self(Ripemd160::digest(Sha256::digest(public)).into())
    }

    /// Reads an address of a kind. Others than of 20 bytes belong to contracts, which have no place in a genesis file.
    pub fn parse(prefix: Prefix, text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.into(), prefix.name());
        let checked = CheckedHrpstring::new::<Bech32>(text).map_err(|_| wrong())?;
        if checked.hrp().as_str() != prefix.name() || text != text.to_lowercase() {
            return Err(wrong());
        }
        let bytes: Vec<u8> = checked.byte_iter().collect();
        bytes.try_into().map(Self).map_err(|_| wrong())
    }

    /// The address as text.
    #[must_use]
    pub fn to_text(self, prefix: Prefix) -> String {
        // Both can fail for prefixes and lengths only that are not these.
        let hrp = Hrp::parse_unchecked(prefix.name());
        bech32::encode::<Bech32>(hrp, &self.0).unwrap_or_default()
    }

    /// The bytes in lower-case hexadecimal digits: a node's name.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// The bytes in upper-case hexadecimal digits, as validators are listed.
    #[must_use]
    pub fn to_upper_hex(self) -> String {
        self.to_hex().to_uppercase()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.to_text(Prefix::Account))
    }
}

/// The EVM's address of an account's key, in the mixed case that checks itself.
pub(crate) fn evm_address(key: &VerifyingKey) -> String {
    let point = key.to_sec1_point(false);
    let hash = Keccak256::digest(&point.as_bytes()[1..]);
    let digits = hex(&hash[12..]);
    let check = hex(&Keccak256::digest(digits.as_bytes()));
    let mixed = digits
        .chars()
        .zip(check.chars())
        .map(|(digit, check)| if check >= '8' { digit.to_ascii_uppercase() } else { digit });
    std::iter::once("0x".to_owned()).chain(mixed.map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_kind_or_with_an_error_is_refused() {
        let text = "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37";
        let address = Address::parse(Prefix::Account, text).unwrap();
        assert_eq!(address.to_text(Prefix::Account), text);
        for (prefix, text) in [
            (Prefix::Operator, text),
            (Prefix::Account, "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd38"),
            (Prefix::Account, "SEI1R5V5SRDA7XFTH3HN2S26TXVRCRNTLDJUK8KD37"),
            (Prefix::Account, "cosmos1r5v5srda7xfth3hn2s26txvrcrntldju7lnwmv"),
            // The same bytes with the checksum of Bech32m.
            (Prefix::Account, "sei1r5v5srda7xfth3hn2s26txvrcrntldjuyc2vjh"),
            (Prefix::Account, ""),
        ] {
            assert!(Address::parse(prefix, text).is_err(), "{text}");
        }
    }
}
