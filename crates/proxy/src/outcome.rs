//! How requests end: a closed list, so that metrics and logs name the same things.

use http::StatusCode;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Forwarded, since it is allowed.
    Allowed,
    /// Forwarded, since its path is ignored.
    Ignored,
    /// Answered by the proxy itself: `OPTIONS *`.
    Answered,
    /// Nobody said who he is.
    NoCredentials,
    /// The token is not a good one.
    BadToken,
    /// The list of subprotocols holds a token in a way that is refused.
    BadWebsocketToken,
    /// Nobody could be asked whose token it is.
    AuthenticationUnavailable,
    /// He may not.
    Denied,
    /// One of his groups holds the separator of groups (W11).
    GroupHoldsSeparator,
    /// A rewrite is configured, and the request has no value for it.
    NoRewriteValue,
    /// The query could be read in two ways (W5).
    AmbiguousQuery,
    /// The path could be read in two ways (W6, W14).
    AmbiguousPath,
    /// `Connection` names an identity header (W3).
    DropsIdentity,
    /// Two lines of `Authorization`.
    TwoAuthorizations,
    /// No host, several, or one that is not the target's.
    AmbiguousHost,
    /// The head can be read in two ways: two framings, lines without a carriage return, a target with a fragment.
    AmbiguousFraming,
    /// A target that is no path.
    BadTarget,
    /// An upgrade with a body, or to several protocols.
    BadUpgrade,
    /// No pattern of `--allow-paths` matches.
    PathNotAllowed,
    /// Nobody could be asked whether he may.
    AuthorizationUnavailable,
    /// The user or a group has characters that no header can hold.
    IdentityNotSpeakable,
    /// The upstream could not be connected to.
    UpstreamUnreachable,
    /// The upstream broke off, or does not speak HTTP.
    UpstreamBroken,
    /// The client went away before the upstream answered.
    ClientGone,
}

impl Outcome {
    /// All of them.
    pub(crate) const ALL: [Self; 24] = [
        Self::Allowed,
        Self::Ignored,
        Self::Answered,
        Self::NoCredentials,
        Self::BadToken,
        Self::BadWebsocketToken,
        Self::AuthenticationUnavailable,
        Self::Denied,
        Self::GroupHoldsSeparator,
        Self::NoRewriteValue,
        Self::AmbiguousQuery,
        Self::AmbiguousPath,
        Self::DropsIdentity,
        Self::TwoAuthorizations,
        Self::AmbiguousHost,
        Self::AmbiguousFraming,
        Self::BadTarget,
        Self::BadUpgrade,
        Self::PathNotAllowed,
        Self::AuthorizationUnavailable,
        Self::IdentityNotSpeakable,
        Self::UpstreamUnreachable,
        Self::UpstreamBroken,
        Self::ClientGone,
    ];

    /// The status that it is answered with, if the proxy answers itself.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Allowed | Self::Ignored | Self::Answered => StatusCode::OK,
            Self::NoCredentials
            | Self::BadToken
            | Self::BadWebsocketToken
            | Self::AuthenticationUnavailable => StatusCode::UNAUTHORIZED,
            Self::Denied | Self::GroupHoldsSeparator => StatusCode::FORBIDDEN,
            Self::NoRewriteValue
            | Self::AmbiguousQuery
            | Self::AmbiguousPath
            | Self::DropsIdentity
            | Self::TwoAuthorizations
            | Self::AmbiguousHost
            | Self::AmbiguousFraming
            | Self::BadTarget
            | Self::BadUpgrade => StatusCode::BAD_REQUEST,
            Self::PathNotAllowed => StatusCode::NOT_FOUND,
            Self::AuthorizationUnavailable => StatusCode::INTERNAL_SERVER_ERROR,
            Self::IdentityNotSpeakable
            | Self::UpstreamUnreachable
            | Self::UpstreamBroken
            | Self::ClientGone => StatusCode::BAD_GATEWAY,
        }
    }

    /// The decision, in metrics and logs.
    pub(crate) fn decision(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Ignored => "ignored",
            Self::Answered => "answered",
            Self::NoCredentials
            | Self::BadToken
            | Self::BadWebsocketToken
            | Self::AuthenticationUnavailable => "unauthenticated",
            Self::Denied | Self::GroupHoldsSeparator => "forbidden",
            Self::PathNotAllowed => "not_found",
            Self::AuthorizationUnavailable => "authz_error",
            Self::IdentityNotSpeakable
            | Self::UpstreamUnreachable
            | Self::UpstreamBroken
            | Self::ClientGone => "upstream_error",
            _ => "bad_request",
        }
    }

    /// The reason, in metrics and logs.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Allowed => "authorized",
            Self::Ignored => "ignored_path",
            Self::Answered => "options_star",
            Self::NoCredentials => "no_credentials",
            Self::BadToken => "bad_token",
            Self::BadWebsocketToken => "bad_websocket_token",
            Self::AuthenticationUnavailable => "authentication_unavailable",
            Self::Denied => "denied",
            Self::GroupHoldsSeparator => "group_holds_separator",
            Self::NoRewriteValue => "no_rewrite_value",
            Self::AmbiguousQuery => "ambiguous_query",
            Self::AmbiguousPath => "ambiguous_path",
            Self::DropsIdentity => "drops_identity",
            Self::TwoAuthorizations => "two_authorizations",
            Self::AmbiguousHost => "ambiguous_host",
            Self::AmbiguousFraming => "ambiguous_framing",
            Self::BadTarget => "bad_target",
            Self::BadUpgrade => "bad_upgrade",
            Self::PathNotAllowed => "path_not_allowed",
            Self::AuthorizationUnavailable => "authorization_unavailable",
            Self::IdentityNotSpeakable => "identity_not_speakable",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamBroken => "upstream_broken",
            Self::ClientGone => "client_gone",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_outcome_has_a_reason_of_its_own_and_a_dead_upstream_is_never_503() {
        let reasons: BTreeSet<&str> = Outcome::ALL.iter().map(|outcome| outcome.reason()).collect();
        assert_eq!(reasons.len(), Outcome::ALL.len());
        // Metrics find their counter by this.
        assert!(Outcome::ALL.iter().enumerate().all(|(index, outcome)| *outcome as usize == index));
        for outcome in Outcome::ALL {
            assert_ne!(outcome.status(), StatusCode::SERVICE_UNAVAILABLE, "{outcome:?}");
            let is_502 = outcome.status() == StatusCode::BAD_GATEWAY;
            assert_eq!(outcome.decision() == "upstream_error", is_502, "{outcome:?}");
        }
    }
}
