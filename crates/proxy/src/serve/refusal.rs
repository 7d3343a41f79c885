//! What is answered instead of the upstream's answer.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use crate::authorization::Attributes;
use crate::outcome::Outcome;
use crate::upstream::body::Reply;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// An answer of the proxy itself.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// How the request ends.
    pub(crate) outcome: Outcome,
    status: StatusCode,
    body: Cow<'static, str>,
}

impl From<Outcome> for Refusal {
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

impl Refusal {
    /// He may not, or nobody could tell.
    pub(crate) fn about(outcome: Outcome, user: &str, attributes: &Attributes<'_>) -> Self {
        let said =
            if outcome == Outcome::AuthorizationUnavailable { "Authorization error" } else { "Forbidden" };
        let (verb, (resource, subresource)) = (attributes.verb(), attributes.resource());
        let body =
            format!("{said} (user={user}, verb={verb}, resource={resource}, subresource={subresource})\n");
        Self { outcome, status: outcome.status(), body: body.into() }
    }

    /// It cannot be found out now who that is, and the client is told so instead of being told that his token is bad (W13).
    pub(crate) fn outage() -> Self {
        Self {
            outcome: Outcome::AuthenticationUnavailable,
            status: StatusCode::SERVICE_UNAVAILABLE,
            body: "Authentication is not available\n".into(),
        }
    }

    /// The answer.
    pub(crate) fn into_response(self) -> Response<Reply> {
        let body = match self.body {
            Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
            Cow::Owned(text) => Bytes::from(text),
        };
        let has_body = !body.is_empty();
        let mut response = Response::new(Reply::Text(body));
        *response.status_mut() = self.status;
        if has_body {
            response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        }
        // Where this request ends, and another would begin, is not known; or what stands for a host may be anything.
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
    fn refusals_read_as_they_always_have() {
        let text = |refusal: Refusal| (refusal.status.as_u16(), refusal.body.into_owned());
        assert_eq!(text(Outcome::BadToken.into()), (401, "Unauthorized\n".into()));
        assert_eq!(text(Outcome::PathNotAllowed.into()), (404, "404 page not found\n".into()));
        assert_eq!(text(Outcome::UpstreamUnreachable.into()), (502, String::new()));
        assert_eq!(
            text(Outcome::NoRewriteValue.into()),
            (400, "Bad Request. The request or configuration is malformed.\n".into())
        );
        let path = Attributes::Path { verb: "get", path: "/a".into() };
        assert_eq!(
            text(Refusal::about(Outcome::Denied, "u", &path)),
            (403, "Forbidden (user=u, verb=get, resource=, subresource=)\n".into())
        );
        assert_eq!(
            text(Refusal::about(Outcome::AuthorizationUnavailable, "u", &path)),
            (500, "Authorization error (user=u, verb=get, resource=, subresource=)\n".into())
        );
    }
}
