//! Validation of Encrypt and Decrypt responses with the limits of kube-apiserver.

use super::call::EncryptReply;

/// Maximum ciphertext size in bytes.
pub const CIPHERTEXT_LIMIT: usize = 1024;

/// Maximum size of all annotations in bytes, including names.
pub const ANNOTATIONS_LIMIT: usize = 32 * 1024;

/// Reason why an API server would reject a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyRejection {
    /// Empty ciphertext.
    #[error("Encrypt returned an empty ciphertext")]
    Empty,
    /// Ciphertext too long.
    #[error("Encrypt returned a ciphertext of {0} bytes; API servers accept at most 1024")]
    TooLong(usize),
    /// Not encrypted.
    #[error("Encrypt returned the plaintext")]
    Plain,
    /// Key ID differs from Status.
    #[error("Encrypt used a different key ID than Status reports; API servers reject such a response")]
    WrongKeyId,
    /// Annotations too long.
    #[error("Encrypt returned annotations of {0} bytes; API servers accept at most 32768")]
    AnnotationsTooLong(usize),
    /// Invalid annotation name.
    #[error("Encrypt returned an annotation with invalid name {0:?}: expected a fully qualified domain name")]
    AnnotationName(String),
    /// Plaintext differs.
    #[error("Decrypt did not return the original plaintext")]
    WrongPlaintext,
}

/// Validates an Encrypt response. `key_id` is the key ID in the Status response.
pub fn check_encrypt_reply(
    plaintext: &[u8],
    key_id: &str,
    response: &EncryptReply,
) -> Result<(), ReplyRejection> {
    let EncryptReply { ciphertext, key_id: used, annotations } = response;
    if ciphertext.is_empty() {
        return Err(ReplyRejection::Empty);
    }
    if ciphertext.len() > CIPHERTEXT_LIMIT {
        return Err(ReplyRejection::TooLong(ciphertext.len()));
    }
    if ciphertext == plaintext {
        return Err(ReplyRejection::Plain);
    }
    if used != key_id {
        return Err(ReplyRejection::WrongKeyId);
    }
    let bytes = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ANNOTATIONS_LIMIT {
        return Err(ReplyRejection::AnnotationsTooLong(bytes));
    }
    match annotations.keys().find(|name| !is_qualified(name)) {
        Some(name) => Err(ReplyRejection::AnnotationName(name.chars().take(64).collect())),
        None => Ok(()),
    }
}

/// Validates a Decrypt response.
pub fn check_plaintext(plaintext: &[u8], response: &[u8]) -> Result<(), ReplyRejection> {
    if plaintext == response { Ok(()) } else { Err(ReplyRejection::WrongPlaintext) }
}

/// Reports whether `name` is a fully qualified domain name: lower case, at least two labels.
fn is_qualified(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_alphanumeric =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && is_alphanumeric(label.chars().next())
            && is_alphanumeric(label.chars().next_back())
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(change: impl FnOnce(&mut EncryptReply)) -> Result<(), ReplyRejection> {
        let mut response =
            EncryptReply { ciphertext: b"sealed".to_vec(), key_id: "k".into(), ..EncryptReply::default() };
        change(&mut response);
        check_encrypt_reply(b"plain", "k", &response)
    }

    #[test]
    fn responses_rejected_by_api_server_are_rejected() {
        assert_eq!(encrypted(|_| ()), Ok(()));
        assert_eq!(encrypted(|e| e.ciphertext = vec![1; 1024]), Ok(()));
        assert_eq!(encrypted(|e| e.ciphertext.clear()), Err(ReplyRejection::Empty));
        assert_eq!(encrypted(|e| e.ciphertext = vec![1; 1025]), Err(ReplyRejection::TooLong(1025)));
        assert_eq!(encrypted(|e| e.ciphertext = b"plain".to_vec()), Err(ReplyRejection::Plain));
        assert_eq!(encrypted(|e| e.key_id = "other".into()), Err(ReplyRejection::WrongKeyId));
        let note = |name: &str, length| (name.to_owned(), vec![0; length]);
        assert_eq!(encrypted(|e| e.annotations = [note("a.example", 32759)].into()), Ok(()));
        assert_eq!(
            encrypted(|e| e.annotations = [note("a.example", 32760)].into()),
            Err(ReplyRejection::AnnotationsTooLong(32769))
        );
        for name in ["", "plain", "A.example", "-a.example", "a..b"] {
            let rejection = encrypted(|e| e.annotations = [note(name, 1)].into());
            assert_eq!(rejection, Err(ReplyRejection::AnnotationName(name.into())));
        }
        assert_eq!(check_plaintext(b"plain", b"plain"), Ok(()));
        assert_eq!(check_plaintext(b"plain", b""), Err(ReplyRejection::WrongPlaintext));
    }
}
