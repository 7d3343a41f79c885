//! secp256k1 account key. A validator's account key pays its stake and signs its gentx.

use std::fmt;

use k256::ecdsa::signature::Signer as _;
use k256::ecdsa::{Signature, SigningKey};
use zeroize::Zeroizing;

use crate::address::{Address, evm_address};

/// Bytes that are not a valid private key: zero, or not below the curve order. About one in 2^128 random values is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid secp256k1 private key; generate 32 new random bytes")]
pub struct InvalidAccountKey;

/// Private key of an account.
pub struct AccountKey(SigningKey);

impl AccountKey {
    /// Creates a key from 32 bytes: random ones, or those stored in a keyring.
    pub fn from_bytes(bytes: &Zeroizing<[u8; 32]>) -> Result<Self, InvalidAccountKey> {
        SigningKey::from_slice(bytes.as_slice()).map(Self).map_err(|_| InvalidAccountKey)
    }

    /// Returns the compressed public key.
    #[must_use]
    pub fn public(&self) -> [u8; 33] {
        let mut public = [0; 33];
        let point = self.0.verifying_key().to_sec1_point(true);
        for (to, from) in public.iter_mut().zip(point.as_bytes()) {
            *to = *from;
        }
        public
    }

    /// Returns the account address.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::from_secp256k1(&self.public())
    }

    /// Returns the EVM address of the same account.
    #[must_use]
    pub fn evm_address(&self) -> String {
        evm_address(self.0.verifying_key())
    }

    /// Signs `bytes`. Deterministic: the same input always yields the same 64 bytes.
    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let signature: Signature = self.0.sign(bytes);
        signature.normalize_s().to_bytes().into()
    }

    /// Returns the private key, to be stored in a keyring.
    pub(crate) fn private(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes().into())
    }
}

#[cfg(test)]
impl AccountKey {
    /// Key of the test vectors, derived from the mnemonic `abandon` (23 times) `art`.
    pub(crate) fn test_vector() -> Self {
        let bytes = [
            0x80, 0x88, 0xc2, 0xed, 0x21, 0x49, 0xc3, 0x4f, 0x6d, 0x65, 0x33, 0xb7, 0x74, 0xda, 0x4e, 0x16,
            0x92, 0xeb, 0x5c, 0xb4, 0x26, 0xfd, 0xba, 0xef, 0x68, 0x98, 0xee, 0xda, 0x48, 0x96, 0x30, 0xb7,
        ];
        Self::from_bytes(&Zeroizing::new(bytes)).unwrap()
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccountKey({:?})", self.address())
    }
}
