//! The token that sidecars are shown. The kubelet replaces it in its file from time to time.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use super::trouble::Trouble;

/// How long a token is used before its file is read again: much shorter than an old token lives on.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// The token in a file.
#[derive(Debug)]
pub(super) struct Token {
    file: PathBuf,
    cached: Mutex<Option<(HeaderValue, Instant)>>,
}

impl Token {
    pub(super) fn in_file(file: PathBuf) -> Self {
        Self { file, cached: Mutex::new(None) }
    }

    /// The value of the header that shows it. A file that cannot be read is an error, not a request without a token.
    pub(super) fn header(&self) -> Result<HeaderValue, Trouble> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((header, read)) = &*cached
            && read.elapsed() < FRESH_FOR
        {
            return Ok(header.clone());
        }
        *cached = None;
        let header = self.read().ok_or(Trouble::NoToken)?;
        *cached = Some((header.clone(), Instant::now()));
        Ok(header)
    }

    /// The token was refused: the one in the file may be another by now.
    pub(super) fn refused(&self) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn read(&self) -> Option<HeaderValue> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        let token = text.trim();
        let mut header =
            HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty())?;
        // It is not written by anything that prints headers.
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_read_again_after_a_minute_and_after_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "one\n").unwrap();
        let token = Token::in_file(file.clone());
        let shown = || token.header().map(|header| header.to_str().unwrap().to_owned());
        assert_eq!(shown(), Ok("Bearer one".into()));
        std::fs::write(&file, "two").unwrap();
        assert_eq!(shown(), Ok("Bearer one".into()), "not at each request");
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(shown(), Ok("Bearer two".into()));
        std::fs::write(&file, "three").unwrap();
        token.refused();
        assert_eq!(shown(), Ok("Bearer three".into()));
        assert!(!format!("{token:?}").contains("three"), "{token:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_token_there_is_no_header() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let token = Token::in_file(file.clone());
        assert_eq!(token.header(), Err(Trouble::NoToken));
        for unusable in ["", " \n", "a\nb", "\u{0}"] {
            std::fs::write(&file, unusable).unwrap();
            assert_eq!(token.header(), Err(Trouble::NoToken), "{unusable:?}");
        }
        std::fs::write(&file, "one").unwrap();
        assert!(token.header().is_ok());
        // One that was read does not outlive its file for ever.
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(token.header(), Err(Trouble::NoToken));
    }
}
