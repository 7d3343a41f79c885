//! Responses of the proxy itself. Where kube-rbac-proxy answers too, status and body equal its own.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use crate::authorization::Attributes;
use crate::outcome::Outcome;
use crate::upstream::body::ResponseBody;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A response of the proxy itself.
#[derive(Clone, Debug)]
pub(crate) struct LocalResponse {
    /// The outcome of the request.
    pub(crate) outcome: Outcome,
    status: StatusCode,
    body: Cow<'static, str>,
}

impl From<Outcome> for LocalResponse {
    fn from(outcome: Outcome) -> Self {
        let body = match outcome {
            Outcome::NoCredentials
            | Outcome::BadToken
            | Outcome::BadWebsocketToken
            | Outcome::AuthenticationUnavailable => "Unauthorized\n".into(),
            Outcome::NoRewriteValue => "Bad Request. The request or configuration is malformed.\n".into(),
            Outcome::PathNotAllowed => "404 page not found\n".into(),
            _ if outcome.status() == StatusCode::BAD_REQUEST => {
                format!("Bad Request ({})\n", outcome.reason()).into()
            }
            _ => Cow::Borrowed(""),
        };
        Self { outcome, status: outcome.status(), body }
    }
}

impl LocalResponse {
    /// A denied request, or one that could not be authorized.
    pub(crate) fn for_attributes(outcome: Outcome, user: &str, attributes: &Attributes<'_>) -> Self {
        let message =
            if outcome == Outcome::AuthorizationUnavailable { "Authorization error" } else { "Forbidden" };
        let (verb, (resource, subresource)) = (attributes.verb(), attributes.resource());
        let body =
            format!("{message} (user={user}, verb={verb}, resource={resource}, subresource={subresource})\n");
        Self { outcome, status: outcome.status(), body: body.into() }
    }

    /// The API server cannot review tokens: 503 instead of 401, which would claim that the token is invalid.
    pub(crate) fn authentication_unavailable() -> Self {
        Self {
            outcome: Outcome::AuthenticationUnavailable,
            status: StatusCode::SERVICE_UNAVAILABLE,
            body: "Authentication is not available\n".into(),
        }
    }

    /// Converts it into an HTTP response.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let body = match self.body {
            Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
            Cow::Owned(text) => Bytes::from(text),
        };
        let has_body = !body.is_empty();
        let mut response = Response::new(ResponseBody::Text(body));
        *response.status_mut() = self.status;
        if has_body {
            response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        }
        // The end of an ambiguous request, and thus the start of the next one, is unknown.
        if matches!(self.outcome, Outcome::AmbiguousFraming | Outcome::AmbiguousHost) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_equal_those_of_kube_rbac_proxy() {
        let text = |response: LocalResponse| (response.status.as_u16(), response.body.into_owned());
        assert_eq!(text(Outcome::BadToken.into()), (401, "Unauthorized\n".into()));
        assert_eq!(text(Outcome::PathNotAllowed.into()), (404, "404 page not found\n".into()));
        assert_eq!(text(Outcome::UpstreamUnreachable.into()), (502, String::new()));
        assert_eq!(
            text(Outcome::NoRewriteValue.into()),
            (400, "Bad Request. The request or configuration is malformed.\n".into())
        );
        let path = Attributes::Path { verb: "get", path: "/a".into() };
        assert_eq!(
            text(LocalResponse::for_attributes(Outcome::Denied, "u", &path)),
            (403, "Forbidden (user=u, verb=get, resource=, subresource=)\n".into())
        );
        assert_eq!(
            text(LocalResponse::for_attributes(Outcome::AuthorizationUnavailable, "u", &path)),
            (500, "Authorization error (user=u, verb=get, resource=, subresource=)\n".into())
        );
    }
}
