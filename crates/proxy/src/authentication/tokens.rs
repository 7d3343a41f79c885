//! Tokens that the API server is asked about.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use super::{Known, Unknown};
use crate::cache::{Bounded, Digest, Limits, Lookups, Secret};
use crate::identity::{HeaderStyle, Identity, UserInfo};
use crate::metrics::{CacheName, ProxyMetrics};
use crate::reviews::Reviews;

/// Bad tokens are remembered in a store of their own: a flood of them must not drop anybody's good one (W7).
const BAD_ENTRIES: Limits = Limits { entries: 16_384, bytes: 4 << 20 };

/// What of a bad token's reason is kept.
const LONGEST_REASON: usize = 200;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: UserInfo,
    audiences: Option<Vec<String>>,
    error: String,
}

/// How long it is remembered whose a token is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    /// What the API server said clearly.
    pub(crate) known: Duration,
    /// That it called the token an error, as it does with all that it does not know.
    pub(crate) bad: Duration,
}

/// Finds the owners of tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    good: Arc<Bounded<Arc<Identity>>>,
    bad: Arc<Bounded<Arc<str>>>,
    lookups: Lookups<Known>,
    asking: Arc<Asking>,
    metrics: ProxyMetrics,
}

/// What a look-up needs, apart from who asked for it.
#[derive(Debug)]
struct Asking {
    reviews: Arc<Reviews>,
    audiences: Vec<String>,
    lifetimes: Lifetimes,
    style: Option<HeaderStyle>,
    secret: Secret,
}

impl Tokens {
    /// Asks through these reviews for tokens of these audiences.
    pub(crate) fn new(
        (reviews, runtime): (Arc<Reviews>, Handle),
        audiences: Vec<String>,
        (limits, lifetimes): (Limits, Lifetimes),
        (style, secret): (Option<HeaderStyle>, Secret),
        metrics: &ProxyMetrics,
    ) -> Self {
        Self {
            good: Arc::new(Bounded::new(limits)),
            bad: Arc::new(Bounded::new(BAD_ENTRIES)),
            lookups: Lookups::on(runtime),
            asking: Arc::new(Asking { reviews, audiences, lifetimes, style, secret }),
            metrics: metrics.clone(),
        }
    }

    /// The stores of good and of bad tokens.
    pub(crate) fn caches(&self) -> (&Bounded<Arc<Identity>>, &Bounded<Arc<str>>) {
        (&self.good, &self.bad)
    }

    /// The key of a token.
    pub(crate) fn key(&self, token: &[u8]) -> Digest {
        self.asking.secret.digest(&[b"token", token])
    }

    /// What is known without asking.
    pub(crate) fn known(&self, key: Digest, now: Instant) -> Option<Known> {
        if let Some(identity) = self.good.get(key, now) {
            self.metrics.looked_up(CacheName::Tokens, true);
            return Some(Ok(identity));
        }
        self.metrics.looked_up(CacheName::Tokens, false);
        let why = self.bad.get(key, now);
        self.metrics.looked_up(CacheName::BadTokens, why.is_some());
        Some(Err(Unknown::Bad(why?)))
    }

    /// Asks the API server.
    pub(crate) async fn ask(&self, key: Digest, token: &str, from: IpAddr) -> Known {
        let (answer, joined) = self
            .lookups
            .join(key, || {
                let body = body(token, &self.asking.audiences);
                let (asking, good, bad) = (self.asking.clone(), self.good.clone(), self.bad.clone());
                async move {
                    // One that has ended since we looked may have found it.
                    if let Some(identity) = good.get(key, Instant::now()) {
                        return Ok(identity);
                    }
                    let answer: Answer = asking.reviews.token(body, from).await?;
                    let clear = answer.status.error.is_empty();
                    let until = |lifetime| Instant::now() + lifetime;
                    match asking.judge(answer.status) {
                        Ok(identity) => {
                            let size = identity.size();
                            good.put(key, identity.clone(), size, until(asking.lifetimes.known));
                            Ok(identity)
                        }
                        Err(why) => {
                            let Lifetimes { known, bad: short } = asking.lifetimes;
                            bad.put(key, why.clone(), why.len(), until(if clear { known } else { short }));
                            Err(Unknown::Bad(why))
                        }
                    }
                }
            })
            .await;
        if joined {
            self.metrics.joined(CacheName::Tokens);
        }
        answer.unwrap_or(Err(Unknown::Lost))
    }
}

impl Asking {
    fn judge(&self, status: Status) -> Result<Arc<Identity>, Arc<str>> {
        let Status { authenticated, user, audiences, error } = status;
        if !authenticated {
            let why = if error.is_empty() { "the token is not known to the API server" } else { &error };
            return Err(why.chars().take(LONGEST_REASON).collect::<String>().into());
        }
        check_audiences(&self.audiences, audiences.as_deref().unwrap_or_default())?;
        Identity::new(user.authenticated(), self.style.as_ref(), &self.secret)
            .map(Arc::new)
            .ok_or_else(|| "the user cannot be written down".into())
    }
}

/// A token must be for one of the audiences. An answer that names none comes from who does not know of audiences, and says nothing.
fn check_audiences(wanted: &[String], are: &[String]) -> Result<(), &'static str> {
    if wanted.is_empty() || wanted.iter().any(|audience| are.contains(audience)) {
        return Ok(());
    }
    Err("the token is for none of the audiences of --auth-token-audiences")
}

fn body(token: &str, audiences: &[String]) -> Vec<u8> {
    let mut spec = json!({ "token": token });
    if !audiences.is_empty() {
        spec["audiences"] = json!(audiences);
    }
    json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec })
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AUTHN-07, AUTHN-08.
    #[test]
    fn a_token_must_be_for_one_of_the_audiences_and_silence_is_no_yes() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(check_audiences(&[], &[]).is_ok());
        assert!(check_audiences(&[], &list(&["a"])).is_ok());
        assert!(check_audiences(&list(&["a", "b"]), &list(&["c", "b"])).is_ok());
        assert!(check_audiences(&list(&["a"]), &list(&["c"])).is_err());
        assert!(check_audiences(&list(&["a"]), &[]).is_err());
    }

    #[test]
    fn audiences_are_asked_for_only_when_there_are_some() {
        let text = |audiences: &[String]| String::from_utf8(body("t\"", audiences)).unwrap();
        assert!(text(&[]).ends_with(r#""spec":{"token":"t\""}}"#), "{}", text(&[]));
        let with = text(&["a".into()]);
        assert!(with.contains(r#""audiences":["a"]"#) && with.contains(r#""token":"t\"""#), "{with}");
    }
}
