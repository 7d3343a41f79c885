//! Verifies tokens of an OpenID Connect issuer.

mod claims;
mod fetch;
mod jws;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use serde::Deserialize;
use tokio::runtime::Handle;

use self::jws::{JwkSet, Token};
use super::{AuthenticationError, AuthenticationResult};
use crate::cache::{BoundedCache, Digest, HmacKey, Limits, SingleFlight};
use crate::identity::{Identity, IdentityHeaders};
use crate::metrics::{CacheName, ProxyMetrics};
use crate::settings;
use runtime::sync::lock;

/// Interval between attempts to reach the issuer, and between refreshes of its keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The discovery document of an issuer.
#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// The keys of the issuer, as far as they are known.
#[derive(Debug, Default)]
struct Keys {
    jwks_uri: Option<String>,
    set: Arc<JwkSet>,
    fetched_at: Option<Instant>,
}

/// Verifies tokens of one issuer.
#[derive(Debug)]
pub(crate) struct OidcAuthenticator {
    inner: Arc<Inner>,
    verifications: SingleFlight<AuthenticationResult>,
    metrics: ProxyMetrics,
}

#[derive(Debug)]
struct Inner {
    settings: settings::OidcSettings,
    tls: Arc<ClientConfig>,
    keys: Mutex<Keys>,
    fetch_lock: tokio::sync::Mutex<()>,
    identities: BoundedCache<Arc<Identity>>,
    max_ttl: Duration,
    identity_headers: Option<IdentityHeaders>,
    hmac_key: HmacKey,
}

impl OidcAuthenticator {
    /// Creates an authenticator. It rejects every token until [`discover`](Self::discover) has fetched the
    /// keys of the issuer.
    pub(crate) fn new(
        (settings, tls): (settings::OidcSettings, ClientConfig),
        runtime: Handle,
        (limits, max_ttl): (Limits, Duration),
        (identity_headers, hmac_key): (Option<IdentityHeaders>, HmacKey),
        metrics: &ProxyMetrics,
    ) -> Self {
        let inner = Inner {
            settings,
            tls: Arc::new(tls),
            keys: Mutex::default(),
            fetch_lock: tokio::sync::Mutex::default(),
            identities: BoundedCache::new(limits),
            max_ttl,
            identity_headers,
            hmac_key,
        };
        Self { inner: Arc::new(inner), verifications: SingleFlight::new(runtime), metrics: metrics.clone() }
    }

    /// Returns the cache of identities.
    pub(crate) fn cache(&self) -> &BoundedCache<Arc<Identity>> {
        &self.inner.identities
    }

    /// Fetches the keys of the issuer, retrying until it succeeds. Never returns.
    pub(crate) async fn discover(&self) {
        loop {
            match self.inner.discover().await {
                Ok(()) => {
                    tracing::info!(issuer = self.inner.settings.issuer, "OIDC issuer discovered");
                    return std::future::pending().await;
                }
                Err(error) => {
                    tracing::error!(error, "OIDC discovery failed; rejecting all tokens until it succeeds")
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns the cache key of a token.
    pub(crate) fn key(&self, token: &[u8]) -> Digest {
        self.inner.hmac_key.digest(&[b"token", token])
    }

    /// Returns the cached identity of a token.
    pub(crate) fn cached(&self, key: Digest, now: Instant) -> Option<AuthenticationResult> {
        let found = self.inner.identities.get(key, now);
        self.metrics.record_lookup(CacheName::Tokens, found.is_some());
        found.map(Ok)
    }

    /// Verifies a token.
    pub(crate) async fn authenticate(&self, key: Digest, token: &str) -> AuthenticationResult {
        let lookup = || {
            let (inner, token) = (self.inner.clone(), token.to_owned());
            async move {
                inner.verify(key, &token).await.map_err(|reason| AuthenticationError::Rejected(reason.into()))
            }
        };
        let (result, joined) = self.verifications.join(key, lookup).await;
        if joined {
            self.metrics.record_joined(CacheName::Tokens);
        }
        result.unwrap_or(Err(AuthenticationError::Aborted))
    }
}

impl Inner {
    async fn discover(&self) -> Result<(), String> {
        let issuer = &self.settings.issuer;
        let discovery_url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Discovery = fetch::json(&discovery_url, &self.tls).await?;
        if found.issuer != *issuer {
            return Err(format!(
                "{discovery_url}: issuer is {:?}, expected {issuer:?} (--oidc-issuer)",
                found.issuer
            ));
        }
        self.keys().jwks_uri = Some(found.jwks_uri);
        self.fetch_keys(None).await.map(drop)
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        lock(&self.keys)
    }

    /// Fetches the keys, unless they changed since `known` or were fetched just now: tokens with invalid
    /// signatures must not cause endless requests to the issuer.
    async fn fetch_keys(&self, known: Option<&Arc<JwkSet>>) -> Result<Arc<JwkSet>, String> {
        let _guard = self.fetch_lock.lock().await;
        let jwks_uri = {
            let mut keys = self.keys();
            let is_newer = known.is_some_and(|known| !Arc::ptr_eq(known, &keys.set));
            let is_recent = keys.fetched_at.is_some_and(|fetched_at| fetched_at.elapsed() < RETRY_INTERVAL);
            if is_newer || (known.is_some() && is_recent) {
                return Ok(keys.set.clone());
            }
            keys.fetched_at = Some(Instant::now());
            keys.jwks_uri.clone().ok_or("issuer is not discovered yet")?
        };
        let set: Arc<JwkSet> = Arc::new(fetch::json(&jwks_uri, &self.tls).await?);
        self.keys().set = set.clone();
        Ok(set)
    }

    async fn verify(&self, key: Digest, text: &str) -> Result<Arc<Identity>, String> {
        let token = Token::parse(text).ok_or("not a signed token (JWS)")?;
        if !claims::is_issued_by(&token.claims, &self.settings.issuer) {
            return Err("token has a different issuer".into());
        }
        if !self.settings.algorithms.contains(&token.algorithm) {
            return Err(format!("signing algorithm {:?} is not in --oidc-sign-alg", token.algorithm));
        }
        let known = self.keys().set.clone();
        // Keys rotate: an unknown one may be new.
        let is_signed =
            token.is_signed_by(&known) || token.is_signed_by(&*self.fetch_keys(Some(&known)).await?);
        if !is_signed {
            return Err("token is not signed by a key of the issuer".into());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let (info, expires_at) = claims::user_info(&token.claims, &self.settings, now)?;
        let identity = Identity::new(info, self.identity_headers.as_ref(), &self.hmac_key)
            .map(Arc::new)
            .ok_or("user cannot be serialized")?;
        let ttl = Duration::try_from_secs_f64(expires_at - now).unwrap_or_default().min(self.max_ttl);
        self.identities.insert(key, identity.clone(), identity.size(), Instant::now() + ttl);
        Ok(identity)
    }
}

#[cfg(test)]
mod tests;
