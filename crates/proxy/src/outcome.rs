//! How requests end. A closed list, so that metrics and logs use the same names.

use http::StatusCode;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Authorized and forwarded.
    Allowed,
    /// Forwarded without authorization: the path matches `--ignore-paths`.
    Ignored,
    /// Answered by the proxy: `OPTIONS *`.
    Answered,
    /// The request has no credentials.
    NoCredentials,
    /// The token was rejected.
    BadToken,
    /// The websocket subprotocols contain a malformed or rejected token.
    BadWebsocketToken,
    /// The token could not be reviewed.
    AuthenticationUnavailable,
    /// The user is not allowed to make the request.
    Denied,
    /// A group of the user contains the group separator.
    GroupContainsSeparator,
    /// A rewrite is configured and the request has no value for it.
    NoRewriteValue,
    /// The query can be parsed in two ways.
    AmbiguousQuery,
    /// The path can be parsed in two ways.
    AmbiguousPath,
    /// `Connection` names an identity header, which would drop it.
    DropsIdentity,
    /// The header that names the subresource is repeated, malformed, or named by `Connection`.
    BadSubresourceHeader,
    /// More than one `Authorization` header.
    DuplicateAuthorization,
    /// No host, several hosts, or a host that differs from the one in the request target.
    AmbiguousHost,
    /// The framing is ambiguous: several lengths or encodings, bare line feeds, a fragment in the target.
    AmbiguousFraming,
    /// The request target is not a path.
    BadTarget,
    /// An upgrade request with a body, or to several protocols.
    BadUpgrade,
    /// The path matches no pattern of `--allow-paths`.
    PathNotAllowed,
    /// The SubjectAccessReview failed.
    AuthorizationUnavailable,
    /// The user or a group contains characters that are not valid in a header value.
    UnencodableIdentity,
    /// No connection to the upstream could be established.
    UpstreamUnreachable,
    /// The upstream closed the connection, or its response is not valid HTTP.
    UpstreamBroken,
    /// The client disconnected before the upstream answered.
    ClientGone,
}

impl Outcome {
    /// Every outcome, in declaration order.
    pub(crate) const ALL: [Self; 25] = [
        Self::Allowed,
        Self::Ignored,
        Self::Answered,
        Self::NoCredentials,
        Self::BadToken,
        Self::BadWebsocketToken,
        Self::AuthenticationUnavailable,
        Self::Denied,
        Self::GroupContainsSeparator,
        Self::NoRewriteValue,
        Self::AmbiguousQuery,
        Self::AmbiguousPath,
        Self::DropsIdentity,
        Self::BadSubresourceHeader,
        Self::DuplicateAuthorization,
        Self::AmbiguousHost,
        Self::AmbiguousFraming,
        Self::BadTarget,
        Self::BadUpgrade,
        Self::PathNotAllowed,
        Self::AuthorizationUnavailable,
        Self::UnencodableIdentity,
        Self::UpstreamUnreachable,
        Self::UpstreamBroken,
        Self::ClientGone,
    ];

    /// Returns the status of the response, if the proxy answers itself.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Allowed | Self::Ignored | Self::Answered => StatusCode::OK,
            Self::NoCredentials
            | Self::BadToken
            | Self::BadWebsocketToken
            | Self::AuthenticationUnavailable => StatusCode::UNAUTHORIZED,
            Self::Denied | Self::GroupContainsSeparator => StatusCode::FORBIDDEN,
            Self::NoRewriteValue
            | Self::AmbiguousQuery
            | Self::AmbiguousPath
            | Self::DropsIdentity
            | Self::BadSubresourceHeader
            | Self::DuplicateAuthorization
            | Self::AmbiguousHost
            | Self::AmbiguousFraming
            | Self::BadTarget
            | Self::BadUpgrade => StatusCode::BAD_REQUEST,
            Self::PathNotAllowed => StatusCode::NOT_FOUND,
            Self::AuthorizationUnavailable => StatusCode::INTERNAL_SERVER_ERROR,
            Self::UnencodableIdentity
            | Self::UpstreamUnreachable
            | Self::UpstreamBroken
            | Self::ClientGone => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the `decision` label in metrics and logs.
    pub(crate) fn decision(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Ignored => "ignored",
            Self::Answered => "answered",
            Self::NoCredentials
            | Self::BadToken
            | Self::BadWebsocketToken
            | Self::AuthenticationUnavailable => "unauthenticated",
            Self::Denied | Self::GroupContainsSeparator => "forbidden",
            Self::PathNotAllowed => "not_found",
            Self::AuthorizationUnavailable => "authz_error",
            Self::UnencodableIdentity
            | Self::UpstreamUnreachable
            | Self::UpstreamBroken
            | Self::ClientGone => "upstream_error",
            _ => "bad_request",
        }
    }

    /// Returns the `reason` label in metrics and logs.
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
            Self::GroupContainsSeparator => "group_holds_separator",
            Self::NoRewriteValue => "no_rewrite_value",
            Self::AmbiguousQuery => "ambiguous_query",
            Self::AmbiguousPath => "ambiguous_path",
            Self::DropsIdentity => "drops_identity",
            Self::BadSubresourceHeader => "bad_subresource_header",
            Self::DuplicateAuthorization => "two_authorizations",
            Self::AmbiguousHost => "ambiguous_host",
            Self::AmbiguousFraming => "ambiguous_framing",
            Self::BadTarget => "bad_target",
            Self::BadUpgrade => "bad_upgrade",
            Self::PathNotAllowed => "path_not_allowed",
            Self::AuthorizationUnavailable => "authorization_unavailable",
            Self::UnencodableIdentity => "identity_not_speakable",
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
    fn reasons_are_unique_and_upstream_errors_are_502() {
        let reasons: BTreeSet<&str> = Outcome::ALL.iter().map(|outcome| outcome.reason()).collect();
        assert_eq!(reasons.len(), Outcome::ALL.len());
        // Metrics index their counters by discriminant.
        assert!(Outcome::ALL.iter().enumerate().all(|(index, outcome)| *outcome as usize == index));
        for outcome in Outcome::ALL {
            assert_ne!(outcome.status(), StatusCode::SERVICE_UNAVAILABLE, "{outcome:?}");
            let is_502 = outcome.status() == StatusCode::BAD_GATEWAY;
            assert_eq!(outcome.decision() == "upstream_error", is_502, "{outcome:?}");
        }
    }
}
