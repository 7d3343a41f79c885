//! Tokens for sidecars: the operator requests a token of its own ServiceAccount for each node, with an audience that only the proxy of
//! that node accepts. They are kept in memory only.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::PostParams;
use kube::{Api, Client};
use runtime::Key;
use runtime::sync::lock;
use tokio::time::{Instant, timeout};

use super::error::{CallError, TokenError};

/// The requested lifetime. A token is useless at every other server, so that a longer one costs nothing but requests: each node takes
/// 1.25 an hour.
const LIFETIME: Duration = Duration::from_hours(1);

/// The share of its lifetime after which a token is renewed, in percent.
const RENEW_AT_PERCENT: u32 = 80;

/// A shorter lifetime is not believed: clocks differ, and a token must not be requested for each call.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(60);

/// The replacement of a rejected token is replaced only if it is older than this: a server that rejects every token must not cause a
/// request for each.
const REPLACEABLE_AFTER: Duration = Duration::from_secs(60);

/// How long a failure is returned before the token is requested again.
const FAILURE_TTL: Duration = Duration::from_secs(5);

/// How long a call waits for the renewal of a token that is still valid, and how soon a renewal that failed is tried again.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);

/// The most audiences whose tokens are kept.
const MAX_AUDIENCES: usize = 10_000;

/// The audience of the token that is requested at startup and dropped. No server accepts it.
const CHECK_AUDIENCE: &str = "outrigger.dev/token-check";

/// How soon that request is retried.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A source of tokens of one ServiceAccount.
#[derive(Clone)]
pub struct TokenSource {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    account: Key,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// The last request failed: the next success is logged.
    is_failing: AtomicBool,
}

/// The token for one audience.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    /// Held during a request, so that concurrent calls share its result.
    request: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
enum State {
    #[default]
    Empty,
    Issued(Issued),
    Failed(TokenError, Instant),
}

#[derive(Clone)]
struct Issued {
    header: HeaderValue,
    issued_at: Instant,
    renew_at: Instant,
    expires_at: Instant,
    /// A proxy has rejected it.
    is_rejected: bool,
    /// It was requested because a proxy had rejected the one before.
    is_replacement: bool,
}

impl Issued {
    fn is_expired(&self) -> bool {
        self.is_rejected || Instant::now() >= self.expires_at
    }

    fn is_due(&self) -> bool {
        self.is_expired() || Instant::now() >= self.renew_at
    }
}

impl TokenSource {
    /// Creates a source of tokens of the ServiceAccount `account`.
    #[must_use]
    pub fn new(client: Client, account: Key) -> Self {
        let shared = Shared { client, account, slots: Mutex::default(), is_failing: AtomicBool::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// Fails unless tokens can be requested. Retries for `limit`: permissions that were just granted take effect with a delay. The token
    /// is dropped.
    pub async fn check(&self, limit: Duration) -> Result<(), TokenError> {
        let begin = Instant::now();
        loop {
            match self.shared.request(CHECK_AUDIENCE).await {
                Ok(_) => return Ok(()),
                Err(error) if begin.elapsed() >= limit => return Err(error),
                Err(error) => tracing::info!(%error, "TokenRequest failed; retrying"),
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Returns the value of the Authorization header for a server with this audience.
    pub(super) async fn authorization(&self, audience: &str) -> Result<HeaderValue, CallError> {
        let slot = self.slot(audience);
        if let Some(known) = slot.current() {
            return known;
        }
        let _request = slot.request.lock().await;
        // Another call may have requested it in the meantime.
        if let Some(known) = slot.current() {
            return known;
        }
        let requested = match slot.is_valid() {
            // The call does not wait for an API server that is unavailable.
            true => timeout(RENEWAL_TIMEOUT, self.shared.request(audience)).await,
            false => Ok(self.shared.request(audience).await),
        };
        let requested =
            requested.unwrap_or_else(|_| Err(TokenError::NoResponse(self.shared.account.to_string())));
        self.shared.log(&requested);
        let mut state = lock(&slot.state);
        match (requested, &mut *state) {
            (Ok(issued), state) => {
                let header = issued.header.clone();
                let is_replacement = matches!(state, State::Issued(before) if before.is_rejected);
                *state = State::Issued(Issued { is_replacement, ..issued });
                Ok(header)
            }
            // Due, and still valid: a short outage of the API server has no effect.
            (Err(_), State::Issued(issued)) if !issued.is_expired() => {
                issued.renew_at = Instant::now() + RENEWAL_INTERVAL;
                Ok(issued.header.clone())
            }
            (Err(error), state) => {
                *state = State::Failed(error.clone(), Instant::now());
                Err(error.into())
            }
        }
    }

    /// Drops a token that a proxy has rejected, unless it is the new replacement of another one.
    pub(super) fn invalidate(&self, audience: &str, rejected: &HeaderValue) {
        if let State::Issued(issued) = &mut *lock(&self.slot(audience).state)
            && issued.header == rejected
            && (!issued.is_replacement || issued.issued_at.elapsed() >= REPLACEABLE_AFTER)
        {
            issued.is_rejected = true;
        }
    }

    /// Drops the token for an audience.
    pub(super) fn forget(&self, audience: &str) {
        lock(&self.shared.slots).remove(audience);
    }

    fn slot(&self, audience: &str) -> Arc<Slot> {
        let mut slots = lock(&self.shared.slots);
        if let Some(slot) = slots.get(audience) {
            return slot.clone();
        }
        if slots.len() >= MAX_AUDIENCES {
            slots.retain(|_, slot| slot.is_in_use());
        }
        if slots.len() >= MAX_AUDIENCES
            && let Some(other) = slots.keys().next().cloned()
        {
            slots.remove(&other);
        }
        slots.entry(audience.to_owned()).or_default().clone()
    }
}

impl Slot {
    /// Returns the token or the failure that is known, if it does not have to be requested.
    fn current(&self) -> Option<Result<HeaderValue, CallError>> {
        match &*lock(&self.state) {
            State::Issued(issued) if !issued.is_due() => Some(Ok(issued.header.clone())),
            State::Failed(error, at) if at.elapsed() < FAILURE_TTL => Some(Err(error.clone().into())),
            _ => None,
        }
    }

    /// Returns whether the token is valid, although it may be due.
    fn is_valid(&self) -> bool {
        matches!(&*lock(&self.state), State::Issued(issued) if !issued.is_expired())
    }

    fn is_in_use(&self) -> bool {
        self.request.try_lock().is_err() || self.is_valid()
    }
}

impl Shared {
    async fn request(&self, audience: &str) -> Result<Issued, TokenError> {
        let Key { namespace, name } = &self.account;
        let spec = TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            expiration_seconds: i64::try_from(LIFETIME.as_secs()).ok(),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let issued_at = Instant::now();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let created = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let created = created.map_err(|error| TokenError::new(&self.account, &error))?;
        let malformed = || TokenError::Malformed(self.account.to_string());
        let status = created.status.ok_or_else(malformed)?;
        let header = bearer(&status.token).ok_or_else(malformed)?;
        let lifetime = lifetime(status.expiration_timestamp.0.duration_since(Timestamp::now()));
        Ok(Issued {
            header,
            issued_at,
            renew_at: issued_at + lifetime * RENEW_AT_PERCENT / 100,
            expires_at: issued_at + lifetime,
            is_rejected: false,
            is_replacement: false,
        })
    }

    /// Logs the first failure and the first success after it.
    fn log(&self, requested: &Result<Issued, TokenError>) {
        let was_failing = self.is_failing.swap(requested.is_err(), Ordering::Relaxed);
        match requested {
            Err(error) if !was_failing => tracing::warn!(%error, "TokenRequest failed"),
            Ok(_) if was_failing => tracing::info!(account = %self.account, "TokenRequest succeeded again"),
            _ => {}
        }
    }
}

/// Returns how long a token is used whose expiration is this far away by the clock of this machine, which may be wrong.
fn lifetime(left: SignedDuration) -> Duration {
    Duration::try_from(left).unwrap_or_default().clamp(SHORTEST_LIFETIME, LIFETIME)
}

/// Returns the value of the Authorization header with a token, or `None` if it is malformed. Neither debug output nor logs contain it.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty())?;
    header.set_sensitive(true);
    Some(header)
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = lock(&self.shared.slots).len();
        let account = &self.shared.account;
        f.debug_struct("TokenSource")
            .field("account", account)
            .field("audiences", &slots)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued() -> Issued {
        let header = bearer("token").unwrap();
        let (issued_at, renew_at, expires_at) =
            (Instant::now(), Instant::now() + LIFETIME * RENEW_AT_PERCENT / 100, Instant::now() + LIFETIME);
        Issued { header, issued_at, renew_at, expires_at, is_rejected: false, is_replacement: false }
    }

    /// A source whose API server refuses connections.
    fn source() -> TokenSource {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let account = Key { namespace: "sei".into(), name: "operator".into() };
        TokenSource::new(Client::try_from(config).unwrap(), account)
    }

    #[tokio::test(start_paused = true)]
    async fn valid_token_is_used_while_it_cannot_be_renewed() {
        let source = source();
        *lock(&source.slot("a").state) = State::Issued(issued());
        let header = bearer("token").unwrap();
        for _ in 0..2 {
            tokio::time::advance(LIFETIME * 45 / 100).await;
            assert_eq!(source.authorization("a").await, Ok(header.clone()));
        }
        let is_due = || match &*lock(&source.slot("a").state) {
            State::Issued(issued) => issued.is_due(),
            _ => panic!("the token was dropped"),
        };
        assert!(!is_due(), "the renewal failed a moment ago");
        tokio::time::advance(RENEWAL_INTERVAL).await;
        assert!(is_due());
        tokio::time::advance(LIFETIME / 10).await;
        let expired = source.authorization("a").await;
        assert_eq!(expired, Err(CallError::NoToken(TokenError::NoResponse("sei/operator".into()))));
    }

    #[tokio::test(start_paused = true)]
    async fn replacement_of_a_rejected_token_is_replaced_once_a_minute() {
        let source = source();
        let header = bearer("token").unwrap();
        let reject = |is_replacement: bool, age: Duration| {
            let slot = source.slot("a");
            let issued_at = Instant::now().checked_sub(age).unwrap();
            *lock(&slot.state) = State::Issued(Issued { is_replacement, issued_at, ..issued() });
            source.invalidate("a", &bearer("another").unwrap());
            assert!(slot.is_valid(), "another token was rejected");
            source.invalidate("a", &header);
            !slot.is_valid()
        };
        tokio::time::advance(LIFETIME).await;
        assert!(reject(false, Duration::ZERO), "a token may be invalid from the start");
        assert!(!reject(true, REPLACEABLE_AFTER / 2));
        assert!(reject(true, REPLACEABLE_AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn token_cache_is_bounded_and_keeps_valid_tokens() {
        let source = source();
        for audience in 0..MAX_AUDIENCES {
            source.slot(&audience.to_string());
        }
        *lock(&source.slot("7").state) = State::Issued(issued());
        source.slot("another");
        assert_eq!(lock(&source.shared.slots).len(), 2, "the valid one and the new one");
        source.forget("7");
        assert_eq!(lock(&source.shared.slots).len(), 1);
    }

    #[test]
    fn lifetime_is_bounded_whatever_the_clock_says() {
        for (left, expected) in [(-600, 60), (0, 60), (600, 600), (3_600, 3_600), (86_400, 3_600)] {
            assert_eq!(lifetime(SignedDuration::from_secs(left)), Duration::from_secs(expected));
        }
    }

    #[test]
    fn token_is_in_no_debug_output() {
        let header = bearer("secret-token").unwrap();
        assert!(!format!("{header:?}").contains("secret-token"));
        assert_eq!(bearer(""), None);
        assert_eq!(bearer("two\nlines"), None);
    }
}
