//! Cache keys: a keyed hash, so that no token is stored and no client can construct the key of another one's
//! entry.

use std::hash::{BuildHasherDefault, Hasher};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};

/// The first 16 bytes of an HMAC-SHA-256.
pub(crate) type Digest = u128;

/// The HMAC key of this process, generated at startup.
#[derive(Clone, Debug)]
pub(crate) struct HmacKey {
    key: hmac::Key,
}

impl HmacKey {
    /// Generates a key. Returns `None` when the system has no randomness.
    pub(crate) fn new() -> Option<Self> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// Hashes the parts. Each part is prefixed with its length, so that bytes cannot move between parts.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            context.update(part);
        }
        let tag = context.sign();
        tag.as_ref().first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
    }
}

/// Uses half of a digest as its hash: digests are uniformly random already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DigestHasher(u64);

/// Builds [`DigestHasher`].
pub(super) type BuildDigestHasher = BuildHasherDefault<DigestHasher>;

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, digest: u128) {
        self.0 = u64::try_from(digest & u128::from(u64::MAX)).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_part_boundaries_and_process_key() {
        let secret = HmacKey::new().unwrap();
        assert_eq!(secret.digest(&[b"ab", b"c"]), secret.digest(&[b"ab", b"c"]));
        assert_ne!(secret.digest(&[b"ab", b"c"]), secret.digest(&[b"a", b"bc"]));
        assert_ne!(secret.digest(&[b"a"]), HmacKey::new().unwrap().digest(&[b"a"]));
    }
}
