//! Bech32, hexadecimal and EVM addresses.

use std::fmt;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use k256::ecdsa::VerifyingKey;
use ripemd::Ripemd160;
use sha2::{Digest as _, Sha256};
use sha3::Keccak256;

use crate::text::hex;

/// Error returned for a malformed address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {0:?}: expected Bech32 with prefix {1:?} and a valid checksum")]
pub struct AddressError(String, &'static str);

/// Kind of an address, which determines its Bech32 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// Account.
    Account,
    /// Validator operator. Same bytes as the operator's account.
    Operator,
    /// Consensus key, which signs blocks.
    Consensus,
}

impl Prefix {
    /// Returns the human-readable part, before the `1` separator.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Account => "sei",
            Self::Operator => "seivaloper",
            Self::Consensus => "seivalcons",
        }
    }
}

/// 20-byte address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address([u8; 20]);

impl Address {
    /// Returns the address of an Ed25519 public key: a node key or a consensus key.
    #[must_use]
    pub fn from_ed25519(public: &[u8; 32]) -> Self {
        let mut address = [0; 20];
        address.copy_from_slice(&Sha256::digest(public)[..20]);
        Self(address)
    }

    /// Returns the address of a compressed secp256k1 public key (33 bytes).
    #[must_use]
    pub fn from_secp256k1(public: &[u8]) -> Self {
        Self(Ripemd160::digest(Sha256::digest(public)).into())
    }

    /// Parses an address. Lengths other than 20 bytes are contract addresses, which a genesis file cannot contain.
    pub fn parse(prefix: Prefix, text: &str) -> Result<Self, AddressError> {
        let invalid = || AddressError(text.into(), prefix.name());
        let checked = CheckedHrpstring::new::<Bech32>(text).map_err(|_| invalid())?;
        if checked.hrp().as_str() != prefix.name() || text != text.to_lowercase() {
            return Err(invalid());
        }
        let bytes: Vec<u8> = checked.byte_iter().collect();
        bytes.try_into().map(Self).map_err(|_| invalid())
    }

    /// Encodes the address as Bech32.
    #[must_use]
    pub fn to_bech32(self, prefix: Prefix) -> String {
        // Neither call fails for these prefixes and a length of 20 bytes.
        let hrp = Hrp::parse_unchecked(prefix.name());
        bech32::encode::<Bech32>(hrp, &self.0).unwrap_or_default()
    }

    /// Encodes the address as lower-case hexadecimal, the form of node IDs.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// Encodes the address as upper-case hexadecimal, the form used in the genesis validator list.
    #[must_use]
    pub fn to_upper_hex(self) -> String {
        self.to_hex().to_uppercase()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.to_bech32(Prefix::Account))
    }
}

/// Returns the EVM address of a public key with the EIP-55 mixed-case checksum.
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
    fn wrong_prefix_or_checksum_is_rejected() {
        let text = "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37";
        let address = Address::parse(Prefix::Account, text).unwrap();
        assert_eq!(address.to_bech32(Prefix::Account), text);
        for (prefix, text) in [
            (Prefix::Operator, text),
            (Prefix::Account, "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd38"),
            (Prefix::Account, "SEI1R5V5SRDA7XFTH3HN2S26TXVRCRNTLDJUK8KD37"),
            (Prefix::Account, "cosmos1r5v5srda7xfth3hn2s26txvrcrntldju7lnwmv"),
            // Same bytes with a Bech32m checksum.
            (Prefix::Account, "sei1r5v5srda7xfth3hn2s26txvrcrntldjuyc2vjh"),
            (Prefix::Account, ""),
        ] {
            assert!(Address::parse(prefix, text).is_err(), "{text}");
        }
    }
}
