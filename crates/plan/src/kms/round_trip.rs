//! Whether an API server would take what a plugin has encrypted, and whether the plugin has it back.

use super::call::Encrypted;

/// Most bytes of an encrypted text.
pub const CIPHERTEXT_LIMIT: usize = 1024;

/// Most bytes of all annotations, names included.
pub const ANNOTATIONS_LIMIT: usize = 32 * 1024;

/// Why an API server would not take what a plugin has encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing came.
    #[error("Encrypt gave an empty ciphertext")]
    Empty,
    /// Too long.
    #[error("Encrypt gave a ciphertext of {0} bytes; API servers take at most 1024")]
    TooLong(usize),
    /// It is not encrypted.
    #[error("Encrypt gave the plaintext back")]
    Plain,
    /// With another key than Status says.
    #[error("Encrypt used another key than Status names; API servers drop such an answer")]
    OtherKey,
    /// Too many or too long annotations.
    #[error("Encrypt gave annotations of {0} bytes; API servers take at most 32768")]
    AnnotationsTooLong(usize),
    /// An annotation's name is no domain name.
    #[error("Encrypt gave an annotation whose name is no domain name with a dot: {0:?}")]
    AnnotationName(String),
    /// Not what was encrypted.
    #[error("Decrypt did not give back what Encrypt was given")]
    OtherText,
}

/// Judges what Encrypt gave for a text. `key_id` is that of Status.
pub fn accept(plaintext: &[u8], key_id: &str, given: &Encrypted) -> Result<(), Refused> {
    let Encrypted { ciphertext, key_id: used, annotations } = given;
    if ciphertext.is_empty() {
        return Err(Refused::Empty);
    }
    if ciphertext.len() > CIPHERTEXT_LIMIT {
        return Err(Refused::TooLong(ciphertext.len()));
    }
    if ciphertext == plaintext {
        return Err(Refused::Plain);
    }
    if used != key_id {
        return Err(Refused::OtherKey);
    }
    let bytes = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ANNOTATIONS_LIMIT {
        return Err(Refused::AnnotationsTooLong(bytes));
    }
    match annotations.keys().find(|name| !is_qualified(name)) {
        Some(name) => Err(Refused::AnnotationName(name.chars().take(64).collect())),
        None => Ok(()),
    }
}

/// Judges what Decrypt gave.
pub fn same(plaintext: &[u8], given: &[u8]) -> Result<(), Refused> {
    if plaintext == given { Ok(()) } else { Err(Refused::OtherText) }
}

/// A fully qualified domain name as Kubernetes has it: lower case, at least two labels.
fn is_qualified(name: &str) -> bool {
    let is_label = |label: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && ends(label.chars().next())
            && ends(label.chars().next_back())
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(change: impl FnOnce(&mut Encrypted)) -> Result<(), Refused> {
        let mut given =
            Encrypted { ciphertext: b"sealed".to_vec(), key_id: "k".into(), ..Encrypted::default() };
        change(&mut given);
        accept(b"plain", "k", &given)
    }

    #[test]
    fn what_an_api_server_would_drop_is_refused() {
        assert_eq!(encrypted(|_| ()), Ok(()));
        assert_eq!(encrypted(|e| e.ciphertext = vec![1; 1024]), Ok(()));
        assert_eq!(encrypted(|e| e.ciphertext.clear()), Err(Refused::Empty));
        assert_eq!(encrypted(|e| e.ciphertext = vec![1; 1025]), Err(Refused::TooLong(1025)));
        assert_eq!(encrypted(|e| e.ciphertext = b"plain".to_vec()), Err(Refused::Plain));
        assert_eq!(encrypted(|e| e.key_id = "other".into()), Err(Refused::OtherKey));
        let note = |name: &str, length| (name.to_owned(), vec![0; length]);
        assert_eq!(encrypted(|e| e.annotations = [note("a.example", 32759)].into()), Ok(()));
        assert_eq!(
            encrypted(|e| e.annotations = [note("a.example", 32760)].into()),
            Err(Refused::AnnotationsTooLong(32769))
        );
        for name in ["", "plain", "A.example", "-a.example", "a..b"] {
            let refused = encrypted(|e| e.annotations = [note(name, 1)].into());
            assert_eq!(refused, Err(Refused::AnnotationName(name.into())));
        }
        assert_eq!(same(b"plain", b"plain"), Ok(()));
        assert_eq!(same(b"plain", b""), Err(Refused::OtherText));
    }
}
