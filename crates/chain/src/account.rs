//! An account's key: who pays for a validator's stake, and signs for it.

use std::fmt;

use k256::ecdsa::signature::Signer as _;
use k256::ecdsa::{Signature, SigningKey};
use zeroize::Zeroizing;

use crate::address::{Address, evm_address};

/// Bytes that are no key: zero, or too large. One in 2^128 random ones is such; draw others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these 32 bytes are no secp256k1 key; draw others")]
pub struct NoKey;

/// The key of an account.
pub struct AccountKey(SigningKey);

impl AccountKey {
    /// The key of 32 random bytes, or of a keyring.
    pub fn from_bytes(bytes: &Zeroizing<[u8; 32]>) -> Result<Self, NoKey> {
        SigningKey::from_slice(bytes.as_slice()).map(Self).map_err(|_| NoKey)
    }

    /// The public key, 33 bytes.
    #[must_use]
    pub fn public(&self) -> [u8; 33] {
        let mut public = [0; 33];
        let point = self.0.verifying_key().to_sec1_point(true);
        for (to, from) in public.iter_mut().zip(point.as_bytes()) {
            *to = *from;
        }
        public
    }

    /// The account's address.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::of_secp256k1(&self.public())
    }

    /// The same account to the EVM.
    #[must_use]
    pub fn evm_address(&self) -> String {
        evm_address(self.0.verifying_key())
    }

    /// A signature of 64 bytes; always the same for the same bytes.
    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let signature: Signature = self.0.sign(bytes);
        signature.normalize_s().to_bytes().into()
    }

    /// The private key, for a keyring.
    pub(crate) fn private(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes().into())
    }
}

#[cfg(test)]
impl AccountKey {
    /// The key of the vectors: that of `abandon` 23 times and `art`.
    pub(crate) fn of_vectors() -> Self {
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
