//! Bytes that nobody may see who does not ask for them.

use std::fmt;

use zeroize::Zeroizing;

/// The content of a file that holds a private key. It is wiped when it is dropped, and never shown.
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// The bytes, for the file.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
