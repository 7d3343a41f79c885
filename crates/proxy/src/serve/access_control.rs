//! Decides whether a request may be forwarded: path patterns, authentication, authorization.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Method, header};
use rustls::RootCertStore;

use super::local_response::LocalResponse;
use super::peer::Peer;
use super::rate_limited_log::RateLimitedLog;
use crate::authentication::{
    AuthenticationError, AuthenticationResult, TokenAuthenticator, bearer, websocket,
};
use crate::authorization::{AccessCheck, AttributesError, Authorizer, Decision};
use crate::cache::HmacKey;
use crate::identity::{HeaderEncodingError, Identity, IdentityHeaders};
use crate::metrics::ProxyMetrics;
use crate::outcome::Outcome;
use crate::request::protected::ProtectedHeaders;
use crate::settings::PathPatterns;

/// Authenticates and authorizes requests.
#[derive(Debug)]
pub(crate) struct AccessControl {
    pub(crate) paths: PathPatterns,
    pub(crate) protected: Arc<ProtectedHeaders>,
    /// Headers that decide about a request, and are therefore removed from trailers.
    pub(crate) not_in_trailers: Arc<ProtectedHeaders>,
    pub(crate) tokens: TokenAuthenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) client_ca: Option<Arc<crate::tls::reload::Reloadable<RootCertStore>>>,
    pub(crate) identity_headers: Option<IdentityHeaders>,
    pub(crate) hmac_key: HmacKey,
    pub(crate) outage_is_503: bool,
    pub(crate) metrics: ProxyMetrics,
    /// Limits the log messages about failed reviews.
    pub(crate) review_failures: RateLimitedLog,
}

/// The parts of a request that decide about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    /// The decoded path.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
}

/// The identity under which a request may be forwarded.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// The user; `None` on an ignored path.
    pub(crate) identity: Option<Arc<Identity>>,
    /// The credential that authenticated the user.
    pub(crate) credential: Credential,
}

/// How a user authenticated, which determines the headers that must not be forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// Not authenticated: the path is ignored.
    None,
    /// Client certificate.
    Certificate,
    /// `Authorization` header.
    Token,
    /// Websocket subprotocol; contains the other subprotocols.
    Websocket(HeaderValue),
}

impl AccessControl {
    /// Returns the identity of an allowed request, or the response to a rejected one.
    pub(crate) async fn admit(
        &self,
        peer: &Peer,
        head: Head<'_>,
        now: Instant,
    ) -> Result<Admitted, LocalResponse> {
        let matches = |patterns: &[crate::request::glob::Pattern]| {
            patterns.iter().any(|pattern| pattern.matches(head.path))
        };
        if !self.paths.allowed.is_empty() && !matches(&self.paths.allowed) {
            return Err(Outcome::PathNotAllowed.into());
        }
        if matches(&self.paths.ignored) {
            return Ok(Admitted { identity: None, credential: Credential::None });
        }
        // Only ignored paths are served above the limit of connections.
        if !peer.slot.is_regular() {
            Box::pin(peer.slot.promote()).await;
        }
        let (identity, credential) = self.authenticate(peer, head.headers, now).await?;
        let checks = self
            .authorizer
            .attributes
            .checks_for(head.method, head.path, head.query, head.headers, &self.hmac_key)
            .map_err(|error| match error {
                AttributesError::MissingValue => Outcome::NoRewriteValue,
                AttributesError::AmbiguousQuery => Outcome::AmbiguousQuery,
                AttributesError::BadSubresourceHeader => Outcome::BadSubresourceHeader,
            })?;
        for check in checks.iter() {
            self.authorize(&identity, check, now).await?;
        }
        match identity.headers.as_ref().and_then(|headers| headers.as_ref().err()) {
            None => {}
            Some(HeaderEncodingError::InvalidCharacters) => return Err(Outcome::UnencodableIdentity.into()),
            Some(HeaderEncodingError::ContainsSeparator) => {
                let attributes = checks.iter().next().map(|check| check.attributes.clone());
                return Err(attributes.map_or_else(
                    || Outcome::GroupContainsSeparator.into(),
                    |attributes| {
                        LocalResponse::for_attributes(
                            Outcome::GroupContainsSeparator,
                            &identity.user,
                            &attributes,
                        )
                    },
                ));
            }
        }
        Ok(Admitted { identity: Some(identity), credential })
    }

    /// Tries certificate, token and websocket subprotocol, in this order. The first that succeeds counts; when
    /// none does, the last failure is the outcome.
    async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        now: Instant,
    ) -> Result<(Arc<Identity>, Credential), LocalResponse> {
        let bearer =
            bearer::token(headers).map_err(|bearer::DuplicateHeader| Outcome::DuplicateAuthorization)?;
        if let Some(client_ca) = &self.client_ca
            && let Some(identity) =
                peer.certificate_identity(client_ca, self.identity_headers.as_ref(), &self.hmac_key)
        {
            return Ok((identity, Credential::Certificate));
        }
        let mut failed = match bearer {
            None => Outcome::NoCredentials,
            Some(token) => match self.authenticate_token(peer, token, now).await {
                Ok(identity) => return Ok((identity, Credential::Token)),
                Err(error) => self.log_failure(peer, &error),
            },
        };
        // Only a request for an upgrade can carry another token.
        let may_be_websocket = matches!(self.tokens, TokenAuthenticator::TokenReview(_));
        if may_be_websocket && headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) {
            match websocket::token(headers) {
                Ok(None) => {}
                Err(websocket::Malformed) => failed = Outcome::BadWebsocketToken,
                Ok(Some(found)) => match self.authenticate_token(peer, found.token.as_bytes(), now).await {
                    Ok(identity) => return Ok((identity, Credential::Websocket(found.remaining))),
                    Err(AuthenticationError::Malformed) => failed = Outcome::BadWebsocketToken,
                    Err(error) => failed = self.log_failure(peer, &error),
                },
            }
        }
        if failed == Outcome::AuthenticationUnavailable && self.outage_is_503 {
            return Err(LocalResponse::authentication_unavailable());
        }
        Err(failed.into())
    }

    async fn authenticate_token(&self, peer: &Peer, token: &[u8], now: Instant) -> AuthenticationResult {
        let key = self.tokens.key(token);
        if let Some(cached) = self.tokens.cached(key, now) {
            return cached;
        }
        let token = bearer::well_formed(token).ok_or(AuthenticationError::Malformed)?;
        // Boxed: this is rare and must not enlarge the future of every request.
        Box::pin(self.tokens.authenticate(key, token, peer.address)).await
    }

    fn log_failure(&self, peer: &Peer, error: &AuthenticationError) -> Outcome {
        let outcome = error.outcome();
        if outcome == Outcome::AuthenticationUnavailable {
            if let Some(suppressed) = self.review_failures.permit(Instant::now()) {
                tracing::error!(client = %peer.address, %error, suppressed, "token authentication failed");
            }
        } else {
            tracing::debug!(client = %peer.address, %error, "token rejected");
        }
        outcome
    }

    async fn authorize(
        &self,
        identity: &Arc<Identity>,
        check: &AccessCheck<'_>,
        now: Instant,
    ) -> Result<(), LocalResponse> {
        let decision = match self.authorizer.decide_locally(identity, check, now) {
            Some(decision) => Ok(decision),
            None => Box::pin(self.authorizer.review(identity, check)).await,
        };
        let respond = |outcome| LocalResponse::for_attributes(outcome, &identity.user, &check.attributes);
        match decision {
            Ok(Decision::Allowed) => Ok(()),
            Ok(Decision::Denied(reason)) => {
                tracing::debug!(user = &*identity.user, attributes = ?check.attributes, %reason, "request denied");
                Err(respond(Outcome::Denied))
            }
            Err(error) => {
                if let Some(suppressed) = self.review_failures.permit(Instant::now()) {
                    tracing::error!(user = &*identity.user, %error, suppressed, "SubjectAccessReview failed");
                }
                Err(respond(Outcome::AuthorizationUnavailable))
            }
        }
    }
}
