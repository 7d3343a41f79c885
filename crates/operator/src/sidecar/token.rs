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
use tokio::time::Instant;

use super::error::{CallError, TokenError};

/// The requested lifetime. A token is useless at every other server, so that a longer one costs nothing but requests: each node takes
/// 1.25 an hour.
const LIFETIME: Duration = Duration::from_hours(1);

/// The share of its lifetime after which a token is renewed, in percent.
const RENEW_AT_PERCENT: u32 = 80;

/// A shorter lifetime is not believed: clocks differ, and a token must not be requested for each call.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(60);

/// A rejected token is replaced only if it is older than this: a server that rejects every token must not cause a request for each.
const REPLACEABLE_AFTER: Duration = Duration::from_secs(60);

/// How long a failure is returned before the token is requested again.
const FAILURE_TTL: Duration = Duration::from_secs(5);

/// The most audiences whose tokens are kept.
const MAX_AUDIENCES: usize = 10_000;

/// The audience of the token that is requested at startup and dropped. No server accepts it.
const CHECK_AUDIENCE: &str = "outrigger.dev/token-check";

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
    lifetime: Duration,
    /// A proxy has rejected it.
    is_rejected: bool,
}

impl Issued {
    fn is_expired(&self) -> bool {
        self.is_rejected || self.issued_at.elapsed() >= self.lifetime
    }

    fn is_due(&self) -> bool {
        self.is_expired() || self.issued_at.elapsed() >= self.lifetime * RENEW_AT_PERCENT / 100
    }
}

impl TokenSource {
    /// Creates a source of tokens of the ServiceAccount `account`.
    #[must_use]
    pub fn new(client: Client, account: Key) -> Self {
        let shared =
            Shared { client, account, slots: Mutex::default(), is_failing: AtomicBool::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// Fails unless tokens can be requested. The token is dropped.
    pub async fn check(&self) -> Result<(), TokenError> {
        self.shared.request(CHECK_AUDIENCE).await.map(drop)
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
        let requested = self.shared.request(audience).await;
        self.shared.log(&requested);
        let mut state = lock(&slot.state);
        match (requested, &mut *state) {
            (Ok(issued), state) => {
                let header = issued.header.clone();
                *state = State::Issued(issued);
                Ok(header)
            }
            // Due, and still valid: a short outage of the API server has no effect.
            (Err(_), State::Issued(issued)) if !issued.is_expired() => Ok(issued.header.clone()),
            (Err(error), state) => {
                *state = State::Failed(error.clone(), Instant::now());
                Err(error.into())
            }
        }
    }

    /// Drops a token that a proxy has rejected, unless it is new.
    pub(super) fn invalidate(&self, audience: &str, rejected: &HeaderValue) {
        if let State::Issued(issued) = &mut *lock(&self.slot(audience).state)
            && issued.header == rejected
            && issued.issued_at.elapsed() >= REPLACEABLE_AFTER
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

    fn is_in_use(&self) -> bool {
        let is_requested = self.request.try_lock().is_err();
        is_requested || matches!(&*lock(&self.state), State::Issued(issued) if !issued.is_expired())
    }
}

impl Shared {
    async fn request(&self, audience: &str) -> Result<Issued, TokenError> {
        let Key { namespace, name } = &self.account;
        let spec = TokenRequestSpec {
            audiences: Some(vec![audience.to_owned()]),
            expiration_seconds: i64::try_from(LIFETIME.as_secs()).ok(),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let issued_at = Instant::now();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let created = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let created = created.map_err(|error| TokenError::new(&self.account, &error))?;
        let status = created.status.unwrap_or_default();
        let header = status.token.as_deref().and_then(bearer);
        let header = header.ok_or_else(|| TokenError::Malformed(self.account.to_string()))?;
        let left = status.expiration_timestamp.map(|time| time.0.duration_since(Timestamp::now()));
        Ok(Issued { header, issued_at, lifetime: lifetime(left.unwrap_or_default()), is_rejected: false })
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
        f.debug_struct("TokenSource").field("account", account).field("audiences", &slots).finish_non_exhaustive()
    }
}
