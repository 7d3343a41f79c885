//! Tokens of an identity provider, verified here.

mod claims;
mod fetch;
mod jws;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use serde::Deserialize;
use tokio::runtime::Handle;

use self::jws::{JwkSet, Token};
use super::{Known, Unknown};
use crate::cache::{Bounded, Digest, Limits, Lookups, Secret};
use crate::identity::{HeaderStyle, Identity};
use crate::metrics::{CacheName, ProxyMetrics};
use crate::settings;

/// How long until an issuer that cannot be reached is tried again, and how long its keys are not asked for again.
const AGAIN: Duration = Duration::from_secs(10);

/// What an issuer says of itself.
#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// The keys of the issuer, as far as they are known.
#[derive(Debug, Default)]
struct Keys {
    address: Option<String>,
    set: Arc<JwkSet>,
    asked: Option<Instant>,
}

/// Verifies tokens of one issuer.
#[derive(Debug)]
pub(crate) struct Oidc {
    inner: Arc<Inner>,
    lookups: Lookups<Known>,
    metrics: ProxyMetrics,
}

#[derive(Debug)]
struct Inner {
    settings: settings::Oidc,
    tls: Arc<ClientConfig>,
    keys: Mutex<Keys>,
    fetching: tokio::sync::Mutex<()>,
    good: Bounded<Arc<Identity>>,
    remembered: Duration,
    style: Option<HeaderStyle>,
    secret: Secret,
}

impl Oidc {
    /// Verifies as told; nobody is known until [`discover`](Self::discover) has found the issuer's keys.
    pub(crate) fn new(
        (settings, tls): (settings::Oidc, ClientConfig),
        runtime: Handle,
        (limits, remembered): (Limits, Duration),
        (style, secret): (Option<HeaderStyle>, Secret),
        metrics: &ProxyMetrics,
    ) -> Self {
        let inner = Inner {
            settings,
            tls: Arc::new(tls),
            keys: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            good: Bounded::new(limits),
            remembered,
            style,
            secret,
        };
        Self { inner: Arc::new(inner), lookups: Lookups::on(runtime), metrics: metrics.clone() }
    }

    /// Owners of tokens.
    pub(crate) fn cache(&self) -> &Bounded<Arc<Identity>> {
        &self.inner.good
    }

    /// Finds the issuer's keys, and tries until it has. It never ends.
    pub(crate) async fn discover(&self) {
        loop {
            match self.inner.discover().await {
                Ok(()) => {
                    tracing::info!(issuer = self.inner.settings.issuer, "the issuer is known");
                    return std::future::pending().await;
                }
                Err(why) => {
                    tracing::error!(why, "the issuer is not known; nobody is until it is. Trying again")
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The key of a token.
    pub(crate) fn key(&self, token: &[u8]) -> Digest {
        self.inner.secret.digest(&[b"token", token])
    }

    /// What is known without verifying.
    pub(crate) fn known(&self, key: Digest, now: Instant) -> Option<Known> {
        let found = self.inner.good.get(key, now);
        self.metrics.looked_up(CacheName::Tokens, found.is_some());
        found.map(Ok)
    }

    /// Verifies a token.
    pub(crate) async fn ask(&self, key: Digest, token: &str) -> Known {
        let look = || {
            let (inner, token) = (self.inner.clone(), token.to_owned());
            async move { inner.verify(key, &token).await.map_err(|why| Unknown::Bad(why.into())) }
        };
        let (answer, joined) = self.lookups.join(key, look).await;
        if joined {
            self.metrics.joined(CacheName::Tokens);
        }
        answer.unwrap_or(Err(Unknown::Lost))
    }
}

impl Inner {
    async fn discover(&self) -> Result<(), String> {
        let issuer = &self.settings.issuer;
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Discovery = fetch::json(&address, &self.tls).await?;
        if found.issuer != *issuer {
            return Err(format!("{address} is of {:?} and not of {issuer:?} (--oidc-issuer)", found.issuer));
        }
        self.keys().address = Some(found.jwks_uri);
        self.fetch_keys(None).await.map(drop)
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches the keys, unless that was done since `known` or just now: tokens that nobody signed must not make us ask for ever.
    async fn fetch_keys(&self, known: Option<&Arc<JwkSet>>) -> Result<Arc<JwkSet>, String> {
        let _turn = self.fetching.lock().await;
        let address = {
            let mut keys = self.keys();
            let newer = known.is_some_and(|known| !Arc::ptr_eq(known, &keys.set));
            let just_now = keys.asked.is_some_and(|asked| asked.elapsed() < AGAIN);
            if newer || (known.is_some() && just_now) {
                return Ok(keys.set.clone());
            }
            keys.asked = Some(Instant::now());
            keys.address.clone().ok_or("the issuer is not known yet")?
        };
        let set: Arc<JwkSet> = Arc::new(fetch::json(&address, &self.tls).await?);
        self.keys().set = set.clone();
        Ok(set)
    }

    async fn verify(&self, key: Digest, text: &str) -> Result<Arc<Identity>, String> {
        let token = Token::parse(text).ok_or("it is no signed token")?;
        if !claims::is_of(&token.claims, &self.settings.issuer) {
            return Err("the token is of another issuer".into());
        }
        if !self.settings.algorithms.contains(&token.algorithm) {
            return Err(format!(
                "the token is signed by {:?}, which is none of --oidc-sign-alg",
                token.algorithm
            ));
        }
        let known = self.keys().set.clone();
        // Keys change: one that is not known may be new.
        let signed = token.is_signed_by(&known) || token.is_signed_by(&*self.fetch_keys(Some(&known)).await?);
        if !signed {
            return Err("the token is signed by nobody who is known".into());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let (info, until) = claims::user(&token.claims, &self.settings, now)?;
        let identity = Identity::new(info, self.style.as_ref(), &self.secret)
            .map(Arc::new)
            .ok_or("the user cannot be written down")?;
        let left = Duration::try_from_secs_f64(until - now).unwrap_or_default().min(self.remembered);
        self.good.put(key, identity.clone(), identity.size(), Instant::now() + left);
        Ok(identity)
    }
}

#[cfg(test)]
mod tests;
