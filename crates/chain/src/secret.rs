//! Secret file content.

use std::fmt;

use zeroize::Zeroizing;

/// Content of a file that holds a private key. Zeroized on drop; `Debug` does not print it.
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// Returns the bytes to be written to the file.
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
