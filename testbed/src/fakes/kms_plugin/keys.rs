//! Keys on disk, one file each, so that a restarted plugin can still decrypt.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;

use crate::error::{Error, IoContext, Result};

/// Length of the nonce in front of each ciphertext.
const NONCE_LENGTH: usize = 12;

/// The keys of a plugin. The highest number encrypts.
#[derive(Debug)]
pub(super) struct Keys {
    name: String,
    folder: PathBuf,
    keys: BTreeMap<u32, RandomizedNonceKey>,
}

impl Keys {
    /// Loads the keys of a directory; creates the first one if there is none.
    pub(super) fn open(name: &str, folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).context(|| format!("creating {}", folder.display()))?;
        let mut keys = BTreeMap::new();
        for entry in fs::read_dir(&folder).context(|| format!("reading {}", folder.display()))?.flatten() {
            let path = entry.path();
            if let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) {
                let bytes = fs::read(&path).context(|| format!("reading {}", path.display()))?;
                keys.insert(number, parse_key(&bytes)?);
            }
        }
        let mut loaded = Self { name: name.into(), folder, keys };
        if loaded.keys.is_empty() {
            loaded.rotate()?;
        }
        Ok(loaded)
    }

    /// Creates a new key and returns its ID.
    pub(super) fn rotate(&mut self) -> Result<String> {
        let number = self.current() + 1;
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| Error::Other("generating a random key failed".into()))?;
        write_atomically(&self.folder.join(format!("{number}.key")), &bytes)?;
        self.keys.insert(number, parse_key(&bytes)?);
        Ok(self.id(number))
    }

    /// Returns the ID of the current key.
    pub(super) fn current_id(&self) -> String {
        self.id(self.current())
    }

    fn current(&self) -> u32 {
        self.keys.keys().next_back().copied().unwrap_or(0)
    }

    fn id(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// Encrypts with the current key: nonce, then ciphertext.
    pub(super) fn seal(&self, mut text: Vec<u8>) -> Option<Vec<u8>> {
        let key = self.keys.get(&self.current())?;
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut text).ok()?;
        Some([nonce.as_ref().as_slice(), &text].concat())
    }

    /// Whether a key with this ID exists.
    pub(super) fn has(&self, id: &str) -> bool {
        self.number(id).is_some()
    }

    /// Decrypts with the key of this ID.
    pub(super) fn open_sealed(&self, id: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.get(&self.number(id)?)?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LENGTH)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        key.open_in_place(nonce, Aad::empty(), &mut sealed).ok().map(|text| text.to_vec())
    }

    fn number(&self, id: &str) -> Option<u32> {
        self.keys.keys().copied().find(|number| self.id(*number) == id)
    }
}

fn parse_key(bytes: &[u8]) -> Result<RandomizedNonceKey> {
    RandomizedNonceKey::new(&AES_256_GCM, bytes)
        .map_err(|_| Error::Other(format!("invalid key: {} bytes, expected 32", bytes.len())))
}

/// Writes atomically: a plugin that is killed here must find readable keys.
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, bytes).context(|| format!("writing {}", temporary.display()))?;
    fs::rename(&temporary, path).context(|| format!("renaming {}", temporary.display()))
}
