//! The token for pods of another operator or a previous version, read from a file that the kubelet rotates. Every proxy of such a pod
//! accepts it, so it is used only where no token for one node can be.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use http::HeaderValue;
use runtime::sync::lock;
use tokio::time::Instant;

use super::error::CallError;
use super::token::bearer;

/// How long a token is cached: much shorter than a rotated token stays valid.
const TTL: Duration = Duration::from_secs(60);

/// The file with the token.
#[derive(Debug)]
pub(super) struct LegacyToken {
    path: PathBuf,
    cached: Mutex<Option<(HeaderValue, Instant)>>,
}

impl LegacyToken {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, cached: Mutex::new(None) }
    }

    /// Returns the value of the Authorization header. An unreadable file is an error: no request is sent without a token.
    pub(super) fn authorization(&self) -> Result<HeaderValue, CallError> {
        let mut cached = lock(&self.cached);
        if let Some((header, read_at)) = &*cached
            && read_at.elapsed() < TTL
        {
            return Ok(header.clone());
        }
        *cached = None;
        let header = self.read().ok_or(CallError::NoLegacyToken)?;
        *cached = Some((header.clone(), Instant::now()));
        Ok(header)
    }

    /// Drops the cached token after it was rejected: the file may hold a newer one.
    pub(super) fn invalidate(&self) {
        *lock(&self.cached) = None;
    }

    fn read(&self) -> Option<HeaderValue> {
        bearer(std::fs::read_to_string(&self.path).ok()?.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn token_is_reloaded_after_its_ttl_and_after_rejection() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "one\n").unwrap();
        let token = LegacyToken::new(file.clone());
        let header = || token.authorization().map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header(), Ok("Bearer one".into()));
        std::fs::write(&file, "two").unwrap();
        assert_eq!(header(), Ok("Bearer one".into()), "cached");
        tokio::time::advance(TTL).await;
        assert_eq!(header(), Ok("Bearer two".into()));
        std::fs::write(&file, "three").unwrap();
        token.invalidate();
        assert_eq!(header(), Ok("Bearer three".into()));
        assert!(!format!("{token:?}").contains("three"), "{token:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn missing_or_malformed_token_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let token = LegacyToken::new(file.clone());
        assert_eq!(token.authorization(), Err(CallError::NoLegacyToken));
        for unusable in ["", " \n", "a\nb", "\u{0}"] {
            std::fs::write(&file, unusable).unwrap();
            assert_eq!(token.authorization(), Err(CallError::NoLegacyToken), "{unusable:?}");
        }
        std::fs::write(&file, "one").unwrap();
        assert!(token.authorization().is_ok());
        // A cached token expires after its file was removed.
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(TTL).await;
        assert_eq!(token.authorization(), Err(CallError::NoLegacyToken));
    }
}
