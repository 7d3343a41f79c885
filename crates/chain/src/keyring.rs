//! Keyring of a new validator in the format of seid's `test` backend. Its password is the constant `test`: read access to the
//! files is access to the key.

use std::num::NonZeroU32;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::key_wrap::{AES_128, AesKek, KeyWrap as _};
use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use zeroize::{Zeroize as _, Zeroizing};

use crate::account::AccountKey;
use crate::secret::Secret;
use crate::text::{base64, from_base64};

const PASSWORD: &[u8] = b"test";
const ALGORITHM: &str = "PBES2-HS256+A128KW";
const ITERATIONS: u32 = 8192;
/// Upper bound on the iteration count in a file, so that decryption terminates in reasonable time.
const MAX_ITERATIONS: u32 = 1 << 20;

/// Name of the key.
pub const KEY_NAME: &str = "validator";
/// File that holds the key.
pub const KEY_FILE: &str = "validator.info";

// Amino prefixes and lengths of the stored record and its fields.
const RECORD: [u8; 4] = [0x0d, 0xad, 0x15, 0x3d];
const PUBLIC_PART: [u8; 7] = [0x12, 0x26, 0xeb, 0x5a, 0xe9, 0x87, 0x21];
const PRIVATE_PART: [u8; 7] = [0x1a, 0x25, 0xe1, 0xb0, 0xf7, 0x9b, 0x20];
const ALGORITHM_PART: &[u8] = b"\x22\x09secp256k1";

/// Random bytes for encrypting one file. Never reuse them.
pub struct Randomness {
    /// Content encryption key.
    pub content_key: Zeroizing<[u8; 32]>,
    /// PBKDF2 salt for the key-wrapping key.
    pub salt: [u8; 12],
    /// AES-GCM nonce.
    pub nonce: [u8; 12],
}

/// Keyring file.
#[derive(Debug)]
pub struct KeyringFile {
    /// File name in `keyring-test`.
    pub name: String,
    /// File content.
    pub content: Secret,
}

/// Error returned when a keyring cannot be written or read. Messages never contain file content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Encryption failed.
    #[error("failed to encrypt the keyring")]
    Cipher,
    /// The file is malformed or was not written by seid or Outrigger.
    #[error(
        "keyring-test/{KEY_FILE} cannot be decrypted; restore it, or remove the keyring and generate a new gentx"
    )]
    Unreadable,
}

/// Renders the two files of a keyring with one key.
pub fn render_files(key: &AccountKey, randomness: [Randomness; 2]) -> Result<[KeyringFile; 2], KeyringError> {
    let [first, second] = randomness;
    let address = format!("{}.address", key.address().to_hex());
    Ok([
        KeyringFile { name: KEY_FILE.into(), content: encrypt(KEY_FILE, &encode_record(key), &first)? },
        KeyringFile { content: encrypt(&address, KEY_FILE.as_bytes(), &second)?, name: address },
    ])
}

/// Reads the key in `validator.info`. A retried task must reuse the key that its first attempt created.
pub fn read_key(file: &[u8]) -> Result<AccountKey, KeyringError> {
    let data = decrypt(file).ok_or(KeyringError::Unreadable)?;
    let end = data.len().checked_sub(ALGORITHM_PART.len()).ok_or(KeyringError::Unreadable)?;
    let begin = end.checked_sub(32).ok_or(KeyringError::Unreadable)?;
    let mut private = Zeroizing::new([0; 32]);
    private.copy_from_slice(&data[begin..end]);
    let key = AccountKey::from_bytes(&private).map_err(|_| KeyringError::Unreadable)?;
    if encode_record(&key) == data { Ok(key) } else { Err(KeyringError::Unreadable) }
}

/// Encodes the key record that the file stores.
pub(crate) fn encode_record(key: &AccountKey) -> Zeroizing<Vec<u8>> {
    let (public, private) = (key.public(), key.private());
    let name = [&[0x0a, KEY_NAME.len() as u8], KEY_NAME.as_bytes()].concat();
    let parts: [&[u8]; 7] =
        [&RECORD, &name, &PUBLIC_PART, &public, &PRIVATE_PART, private.as_slice(), ALGORITHM_PART];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut record = Zeroizing::new(Vec::with_capacity(length + 1));
    record.push(length as u8);
    parts.iter().for_each(|part| record.extend_from_slice(part));
    record
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    enc: String,
    p2c: u32,
    p2s: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    data: Zeroizing<String>,
}

fn encrypt(name: &str, data: &[u8], randomness: &Randomness) -> Result<Secret, KeyringError> {
    let header = format!(
        "{{\"alg\":\"{ALGORITHM}\",\"enc\":\"A256GCM\",\"p2c\":{ITERATIONS},\"p2s\":\"{}\"}}",
        URL_SAFE_NO_PAD.encode(randomness.salt)
    );
    let header = URL_SAFE_NO_PAD.encode(header);
    let data = Zeroizing::new(base64(data));
    let ends = [
        "{\"Key\":\"",
        name,
        "\",\"Data\":\"",
        &data,
        "\",\"Label\":\"\",\"Description\":\"\",\"KeychainNotTrustApplication\":false,\"KeychainNotSynchronizable\":false}",
    ];
    // Its final size, the tag included: a text that grows leaves copies behind that are not wiped.
    let size = ends.iter().map(|part| part.len()).sum::<usize>() + AES_256_GCM.tag_len();
    let mut content = Zeroizing::new(Vec::with_capacity(size));
    ends.iter().for_each(|part| content.extend_from_slice(part.as_bytes()));

    let mut wrapped = [0; 40];
    let kek = AesKek::new(&AES_128, derive_wrapping_key(&randomness.salt, ITERATIONS)?.as_slice());
    kek.and_then(|kek| kek.wrap(randomness.content_key.as_slice(), &mut wrapped).map(drop))
        .map_err(|_| KeyringError::Cipher)?;
    let key =
        UnboundKey::new(&AES_256_GCM, randomness.content_key.as_slice()).map_err(|_| KeyringError::Cipher)?;
    let nonce = Nonce::assume_unique_for_key(randomness.nonce);
    let tag = LessSafeKey::new(key)
        .seal_in_place_separate_tag(nonce, Aad::from(header.as_bytes()), &mut content)
        .map_err(|_| KeyringError::Cipher)?;
    let parts = [
        header,
        URL_SAFE_NO_PAD.encode(wrapped),
        URL_SAFE_NO_PAD.encode(randomness.nonce),
        URL_SAFE_NO_PAD.encode(content.as_slice()),
        URL_SAFE_NO_PAD.encode(tag.as_ref()),
    ];
    Ok(Secret::new(Zeroizing::new(parts.join("."))))
}

fn decrypt(file: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = std::str::from_utf8(file).ok()?.trim_end();
    let parts: Vec<&str> = text.split('.').collect();
    let [header_text, wrapped, nonce, content, tag] = parts.as_slice() else { return None };
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let header: Header = serde_json::from_slice(&bytes(header_text)?).ok()?;
    if header.alg != ALGORITHM || header.enc != "A256GCM" || header.p2c > MAX_ITERATIONS {
        return None;
    }
    let kek =
        AesKek::new(&AES_128, derive_wrapping_key(&bytes(&header.p2s)?, header.p2c).ok()?.as_slice()).ok()?;
    let mut content_key = Zeroizing::new([0; 32]);
    let wrapped = bytes(wrapped).filter(|wrapped| wrapped.len() == 40)?;
    kek.unwrap(&wrapped, content_key.as_mut_slice()).ok()?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, content_key.as_slice()).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(&bytes(nonce)?).ok()?;
    let mut sealed = Zeroizing::new([bytes(content)?, bytes(tag)?].concat());
    let opened = key.open_in_place(nonce, Aad::from(header_text.as_bytes()), &mut sealed).ok()?;
    let item: Item = serde_json::from_slice(opened).ok()?;
    opened.zeroize();
    from_base64(&item.data).map(Zeroizing::new)
}

/// Derives the key-wrapping key.
fn derive_wrapping_key(salt: &[u8], iterations: u32) -> Result<Zeroizing<[u8; 16]>, KeyringError> {
    let iterations = NonZeroU32::new(iterations).ok_or(KeyringError::Cipher)?;
    let salt = [ALGORITHM.as_bytes(), &[0], salt].concat();
    let mut key = Zeroizing::new([0; 16]);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, PASSWORD, key.as_mut_slice());
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_record_matches_test_vector() {
        assert_eq!(
            crate::text::hex(&encode_record(&AccountKey::test_vector())),
            "690dad153d0a0976616c696461746f721226eb5ae9872102ba66a84cf7839af172a13e7fc9f5e7008cb8bca1585f8f3bafb3039eda3c1fdd1a25e1b0f79b208088c2ed2149c34f6d6533b774da4e1692eb5cb426fdbaef6898eeda489630b72209736563703235366b31"
        );
    }
}
