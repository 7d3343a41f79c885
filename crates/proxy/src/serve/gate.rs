//! Who is let through: the steps from a head that was read to a request that may be forwarded.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Method, header};
use rustls::RootCertStore;

use super::peer::Peer;
use super::refusal::Refusal;
use super::seldom::Seldom;
use crate::authentication::{Known, Tellers, Unknown, bearer, websocket};
use crate::authorization::{Asked, Authorizer, Decision, Missing};
use crate::cache::Secret;
use crate::identity::{HeaderStyle, Identity, Unspeakable};
use crate::metrics::ProxyMetrics;
use crate::outcome::Outcome;
use crate::request::protected::Protected;
use crate::settings::Paths;

/// Everything that is needed to decide about a request.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) paths: Paths,
    pub(crate) protected: Arc<Protected>,
    pub(crate) tokens: Tellers,
    pub(crate) authorizer: Authorizer,
    pub(crate) authorities: Option<Arc<crate::tls::reload::Current<RootCertStore>>>,
    pub(crate) style: Option<HeaderStyle>,
    pub(crate) secret: Secret,
    pub(crate) outage_is_503: bool,
    pub(crate) metrics: ProxyMetrics,
    /// When failures of the API server were told last.
    pub(crate) told: Seldom,
}

/// The parts of a head that are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    /// The path, decoded.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
}

/// Somebody who is let through.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// Who; none on an ignored path.
    pub(crate) identity: Option<Arc<Identity>>,
    /// How he has said so.
    pub(crate) credential: Credential,
}

/// How somebody has said who he is: what of it must not be passed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// He has not, since nobody asked.
    None,
    /// By a certificate.
    Certificate,
    /// By `Authorization`.
    Token,
    /// By a subprotocol; these are the others.
    Websocket(HeaderValue),
}

impl Gate {
    /// Lets somebody through, or says why not.
    pub(crate) async fn admit(&self, peer: &Peer, head: Head<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let matches =
            |patterns: &[crate::request::glob::Pattern]| patterns.iter().any(|one| one.matches(head.path));
        if !self.paths.allowed.is_empty() && !matches(&self.paths.allowed) {
            return Err(Outcome::PathNotAllowed.into());
        }
        if matches(&self.paths.ignored) {
            return Ok(Admitted { identity: None, credential: Credential::None });
        }
        let (identity, credential) = self.authenticate(peer, head.headers, now).await?;
        let asked = self
            .authorizer
            .asking
            .of(head.method, head.path, head.query, head.headers, &self.secret)
            .map_err(|missing| match missing {
                Missing::Value => Outcome::NoRewriteValue,
                Missing::Query => Outcome::AmbiguousQuery,
            })?;
        for one in asked.iter() {
            self.authorize(&identity, one, now).await?;
        }
        match identity.headers.as_ref().and_then(|headers| headers.as_ref().err()) {
            None => {}
            Some(Unspeakable::Characters) => return Err(Outcome::IdentityNotSpeakable.into()),
            Some(Unspeakable::Separator) => {
                let attributes = asked.iter().next().map(|one| one.attributes.clone());
                return Err(attributes.map_or_else(
                    || Outcome::GroupHoldsSeparator.into(),
                    |attributes| Refusal::about(Outcome::GroupHoldsSeparator, &identity.user, &attributes),
                ));
            }
        }
        Ok(Admitted { identity: Some(identity), credential })
    }

    /// By certificate, by token, by subprotocol: the first that succeeds counts, and only if none does, the last failure.
    async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        now: Instant,
    ) -> Result<(Arc<Identity>, Credential), Refusal> {
        let bearer = bearer::of(headers).map_err(|bearer::Twice| Outcome::TwoAuthorizations)?;
        if let Some(authorities) = &self.authorities
            && let Some(identity) = peer.named(authorities, self.style.as_ref(), &self.secret)
        {
            return Ok((identity, Credential::Certificate));
        }
        let mut failed = match bearer {
            None => Outcome::NoCredentials,
            Some(token) => match self.owner(peer, token, now).await {
                Ok(identity) => return Ok((identity, Credential::Token)),
                Err(why) => self.tell(peer, &why),
            },
        };
        // Only a request for an upgrade can carry another one.
        let may_be_websocket = matches!(self.tokens, Tellers::ApiServer(_));
        if may_be_websocket && headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) {
            match websocket::of(headers) {
                Ok(None) => {}
                Err(websocket::Malformed) => failed = Outcome::BadWebsocketToken,
                Ok(Some(found)) => match self.owner(peer, found.token.as_bytes(), now).await {
                    Ok(identity) => return Ok((identity, Credential::Websocket(found.rest))),
                    Err(Unknown::Impossible) => failed = Outcome::BadWebsocketToken,
                    Err(why) => failed = self.tell(peer, &why),
                },
            }
        }
        if failed == Outcome::AuthenticationUnavailable && self.outage_is_503 {
            return Err(Refusal::outage());
        }
        Err(failed.into())
    }

    async fn owner(&self, peer: &Peer, token: &[u8], now: Instant) -> Known {
        let key = self.tokens.key(token);
        if let Some(known) = self.tokens.known(key, now) {
            return known;
        }
        let token = bearer::possible(token).ok_or(Unknown::Impossible)?;
        // On the heap: it is seldom, and must not make every request larger.
        Box::pin(self.tokens.ask(key, token, peer.address)).await
    }

    fn tell(&self, peer: &Peer, why: &Unknown) -> Outcome {
        let outcome = why.outcome();
        if outcome == Outcome::AuthenticationUnavailable {
            if let Some(kept_back) = self.told.may_tell(Instant::now()) {
                tracing::error!(client = %peer.address, %why, kept_back, "nobody could be asked whose token it is");
            }
        } else {
            tracing::debug!(client = %peer.address, %why, "a token is not a good one");
        }
        outcome
    }

    async fn authorize(
        &self,
        identity: &Arc<Identity>,
        asked: &Asked<'_>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let decision = match self.authorizer.known(identity, asked, now) {
            Some(decision) => Ok(decision),
            None => Box::pin(self.authorizer.ask(identity, asked)).await,
        };
        let about = |outcome| Refusal::about(outcome, &identity.user, &asked.attributes);
        match decision {
            Ok(Decision::Allowed) => Ok(()),
            Ok(Decision::Denied(reason)) => {
                tracing::debug!(user = &*identity.user, attributes = ?asked.attributes, %reason, "denied");
                Err(about(Outcome::Denied))
            }
            Err(why) => {
                if let Some(kept_back) = self.told.may_tell(Instant::now()) {
                    tracing::error!(user = &*identity.user, %why, kept_back, "nobody could be asked whether he may");
                }
                Err(about(Outcome::AuthorizationUnavailable))
            }
        }
    }
}
