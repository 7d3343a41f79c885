//! Keyring of a new validator.

use chain::keyring::{KeyringError, Randomness, read_key, render_files};
use zeroize::Zeroizing;

use crate::ceremony::{account_key, vector_key};

fn randomness(seed: u8) -> Randomness {
    Randomness { content_key: Zeroizing::new([seed; 32]), salt: [seed + 1; 12], nonce: [seed + 2; 12] }
}

#[test]
fn keyring_round_trips() {
    let [key, address] = render_files(&vector_key(), [randomness(1), randomness(5)]).unwrap();
    assert_eq!(key.name, "validator.info");
    assert_eq!(address.name, "1d19480dbdf192bbc6f35415a59983c0e6bfb65c.address");
    assert_eq!(read_key(key.content.expose()).unwrap().address(), vector_key().address());
    let header = "eyJhbGciOiJQQkVTMi1IUzI1NitBMTI4S1ciLCJlbmMiOiJBMjU2R0NNIiwicDJjIjo4MTkyLCJwMnMiOiJBZ0lDQWdJQ0FnSUNBZ0lDIn0.";
    assert!(key.content.expose().starts_with(header.as_bytes()));
    assert_eq!(format!("{key:?}"), "KeyringFile { name: \"validator.info\", content: Secret(..) }");
}

#[test]
fn tampered_keyring_is_rejected() {
    let [key, address] = render_files(&account_key(9), [randomness(1), randomness(5)]).unwrap();
    let text = String::from_utf8(key.content.expose().to_vec()).unwrap();
    assert_eq!(read_key(address.content.expose()).unwrap_err(), KeyringError::Unreadable);
    for index in [10, 130, 180, 200, text.len() - 5] {
        let mut bytes = text.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        assert_eq!(read_key(&bytes).unwrap_err(), KeyringError::Unreadable, "{index}");
    }
    for text in ["", "a.b.c", "....", &text[..text.len() - 30]] {
        assert_eq!(read_key(text.as_bytes()).unwrap_err(), KeyringError::Unreadable);
    }
}
