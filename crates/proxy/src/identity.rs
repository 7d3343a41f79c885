//! The authenticated user, prepared for reuse across requests.

use std::collections::BTreeMap;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::cache::{Digest, HmacKey};

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// The `extra` key that identifies the credential of a request.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The `UserInfo` of a TokenReview; serializes as the user fields of a SubjectAccessReview `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserInfo {
    #[serde(
        default,
        rename(deserialize = "username", serialize = "user"),
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

fn null_as_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl UserInfo {
    /// Adds the `system:authenticated` group.
    pub(crate) fn with_authenticated_group(mut self) -> Self {
        let has = |group: &str| self.groups.iter().any(|has| has == group);
        if self.name != ANONYMOUS && !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }
}

/// The headers that carry the identity to the upstream.
#[derive(Clone, Debug)]
pub(crate) struct IdentityHeaders {
    pub(crate) user: http::HeaderName,
    pub(crate) groups: http::HeaderName,
    pub(crate) separator: String,
}

/// Why an identity cannot be encoded in headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderEncodingError {
    /// The user or a group contains characters that are not valid in a header value.
    InvalidCharacters,
    /// A group contains the separator: the upstream would read it as two groups.
    ContainsSeparator,
}

/// An authenticated user.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) user: Box<str>,
    pub(crate) groups: Box<[String]>,
    /// The user part of a SubjectAccessReview `spec`: JSON without the closing brace.
    pub(crate) spec: Box<str>,
    /// Digest of everything an authorizer can see.
    pub(crate) digest: Digest,
    /// Values of the user and groups headers, if identity headers are enabled.
    pub(crate) headers: Option<Result<(HeaderValue, HeaderValue), HeaderEncodingError>>,
}

impl Identity {
    /// Returns `None` when the user cannot be serialized as JSON.
    pub(crate) fn new(
        info: UserInfo,
        identity_headers: Option<&IdentityHeaders>,
        hmac_key: &HmacKey,
    ) -> Option<Self> {
        let mut spec = serde_json::to_string(&info).ok()?;
        spec.pop();
        let headers =
            identity_headers.map(|identity_headers| encode_headers(&info, &identity_headers.separator));
        Some(Self {
            digest: hmac_key.digest(&[spec.as_bytes()]),
            spec: spec.into_boxed_str(),
            headers,
            user: info.name.into_boxed_str(),
            groups: info.groups.into_boxed_slice(),
        })
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| group.len() + size_of::<String>()).sum();
        size_of::<Self>() + self.spec.len() + 2 * self.user.len() + 2 * groups
    }
}

fn encode_headers(
    info: &UserInfo,
    separator: &str,
) -> Result<(HeaderValue, HeaderValue), HeaderEncodingError> {
    if !separator.is_empty() && info.groups.iter().any(|group| group.contains(separator)) {
        return Err(HeaderEncodingError::ContainsSeparator);
    }
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| HeaderEncodingError::InvalidCharacters)
    };
    Ok((value(&info.name)?, value(&info.groups.join(separator))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..UserInfo::default()
        }
    }

    fn identity(info: UserInfo) -> Identity {
        let identity_headers = IdentityHeaders {
            user: http::HeaderName::from_static("x-remote-user"),
            groups: http::HeaderName::from_static("x-remote-groups"),
            separator: "|".into(),
        };
        Identity::new(info, Some(&identity_headers), &HmacKey::new().unwrap()).unwrap()
    }

    #[test]
    fn authenticated_group_is_added_once() {
        let groups = |name, groups: &[&str]| info(name, groups).with_authenticated_group().groups;
        assert_eq!(groups("a", &["g"]), ["g", "system:authenticated"]);
        assert_eq!(groups("a", &["system:authenticated"]), ["system:authenticated"]);
        assert_eq!(groups("a", &["system:unauthenticated"]), ["system:unauthenticated"]);
        assert!(groups("system:anonymous", &[]).is_empty());
    }

    #[test]
    fn headers_contain_user_and_groups() {
        let (user, groups) =
            identity(info("system:serviceaccount:a:b", &["x", "y"])).headers.unwrap().unwrap();
        assert_eq!(
            (user, groups),
            (HeaderValue::from_static("system:serviceaccount:a:b"), HeaderValue::from_static("x|y"))
        );
        let (_, groups) = identity(info("a", &[])).headers.unwrap().unwrap();
        assert_eq!(groups, "", "header is present and empty");
    }

    #[test]
    fn unencodable_identity_is_rejected() {
        assert_eq!(
            identity(info("a", &["x|admins"])).headers.unwrap(),
            Err(HeaderEncodingError::ContainsSeparator)
        );
        for name in ["a\nb", "a\rb", "a\0b"] {
            assert_eq!(
                identity(info(name, &[])).headers.unwrap(),
                Err(HeaderEncodingError::InvalidCharacters),
                "{name:?}"
            );
        }
    }

    #[test]
    fn spec_contains_all_user_fields() {
        let user: UserInfo = serde_json::from_str(
            r#"{"username":"a\"b","uid":"1","groups":["g"],"extra":{"k":["v"]},"other":1}"#,
        )
        .unwrap();
        assert_eq!(&*identity(user).spec, r#"{"user":"a\"b","uid":"1","groups":["g"],"extra":{"k":["v"]}"#);
        let bare: UserInfo = serde_json::from_str(r#"{"username":"a","groups":null,"extra":null}"#).unwrap();
        assert_eq!(&*identity(bare).spec, r#"{"user":"a""#);
    }

    #[test]
    fn digest_covers_every_user_field() {
        let hmac_key = HmacKey::new().unwrap();
        let digest = |info| Identity::new(info, None, &hmac_key).unwrap().digest;
        let plain = digest(info("a", &["g"]));
        assert_eq!(plain, digest(info("a", &["g"])));
        assert_ne!(plain, digest(UserInfo { uid: "1".into(), ..info("a", &["g"]) }));
        let extra = BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]);
        assert_ne!(plain, digest(UserInfo { extra, ..info("a", &["g"]) }));
    }
}
