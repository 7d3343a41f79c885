//! Keys of caches: what is remembered is known by a keyed hash only, so that no token is kept and nobody can aim at another's entry.

use std::hash::{BuildHasherDefault, Hasher};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};

/// Sixteen bytes of an HMAC-SHA-256.
pub(crate) type Digest = u128;

/// The key of this process; it lives and dies with it.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    key: hmac::Key,
}

impl Secret {
    /// A new one. `None` when the system has no randomness to give.
    pub(crate) fn new() -> Option<Self> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// The digest of some parts. Each is preceded by its length: parts cannot lend each other bytes.
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

/// Digests are random already: half of one is as good a hash as any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HalfOf(u64);

/// Builds [`HalfOf`].
pub(super) type ByHalf = BuildHasherDefault<HalfOf>;

impl Hasher for HalfOf {
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
    fn parts_do_not_lend_each_other_bytes_and_processes_do_not_share_keys() {
        let secret = Secret::new().unwrap();
        assert_eq!(secret.digest(&[b"ab", b"c"]), secret.digest(&[b"ab", b"c"]));
        assert_ne!(secret.digest(&[b"ab", b"c"]), secret.digest(&[b"a", b"bc"]));
        assert_ne!(secret.digest(&[b"a"]), Secret::new().unwrap().digest(&[b"a"]));
    }
}
