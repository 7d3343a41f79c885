//! Who is asking, in the parts that are needed again.

use std::collections::BTreeMap;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::cache::{Digest, Secret};

/// Everybody who is known belongs to this group.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// A user as the API server describes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserInfo {
    /// The name.
    #[serde(
        default,
        rename(deserialize = "username", serialize = "user"),
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) name: String,
    /// The id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    /// The groups.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
    /// What else authorizers may want to know.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

fn nullable<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

impl UserInfo {
    /// Adds the group of all who are known.
    pub(crate) fn authenticated(mut self) -> Self {
        let has = |group: &str| self.groups.iter().any(|has| has == group);
        if self.name != ANONYMOUS && !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }
}

/// How the upstream is told who is asking.
#[derive(Clone, Debug)]
pub(crate) struct HeaderStyle {
    pub(crate) user: http::HeaderName,
    pub(crate) groups: http::HeaderName,
    pub(crate) separator: String,
}

/// Why an upstream cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unspeakable {
    /// The user or a group has characters that no header can hold.
    Characters,
    /// A group holds the separator: the upstream would take it for two (W11).
    Separator,
}

/// Somebody who is known.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The name.
    pub(crate) user: Box<str>,
    /// The groups.
    pub(crate) groups: Box<[String]>,
    /// The beginning of a review's `spec`, as JSON without its closing brace.
    pub(crate) spec: Box<str>,
    /// The digest of all that an authorizer may look at.
    pub(crate) digest: Digest,
    /// The values of the two headers, if the upstream is to be told.
    pub(crate) headers: Option<Result<(HeaderValue, HeaderValue), Unspeakable>>,
}

impl Identity {
    /// Prepares what is needed again. `None` for what cannot be written as JSON.
    pub(crate) fn new(info: UserInfo, style: Option<&HeaderStyle>, secret: &Secret) -> Option<Self> {
        let mut spec = serde_json::to_string(&info).ok()?;
        spec.pop();
        let headers = style.map(|style| spoken(&info, &style.separator));
        Some(Self {
            digest: secret.digest(&[spec.as_bytes()]),
            spec: spec.into_boxed_str(),
            headers,
            user: info.name.into_boxed_str(),
            groups: info.groups.into_boxed_slice(),
        })
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| group.len() + size_of::<String>()).sum();
        size_of::<Self>() + self.spec.len() + 2 * self.user.len() + 2 * groups
    }
}

fn spoken(info: &UserInfo, separator: &str) -> Result<(HeaderValue, HeaderValue), Unspeakable> {
    if !separator.is_empty() && info.groups.iter().any(|group| group.contains(separator)) {
        return Err(Unspeakable::Separator);
    }
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Unspeakable::Characters);
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
        let style = HeaderStyle {
            user: http::HeaderName::from_static("x-remote-user"),
            groups: http::HeaderName::from_static("x-remote-groups"),
            separator: "|".into(),
        };
        Identity::new(info, Some(&style), &Secret::new().unwrap()).unwrap()
    }

    #[test]
    fn everybody_who_is_known_is_in_the_group_of_those() {
        let groups = |name, groups: &[&str]| info(name, groups).authenticated().groups;
        assert_eq!(groups("a", &["g"]), ["g", "system:authenticated"]);
        assert_eq!(groups("a", &["system:authenticated"]), ["system:authenticated"]);
        assert_eq!(groups("a", &["system:unauthenticated"]), ["system:unauthenticated"]);
        assert!(groups("system:anonymous", &[]).is_empty());
    }

    /// HDR-07, HDR-08.
    #[test]
    fn headers_hold_the_user_and_the_groups() {
        let (user, groups) =
            identity(info("system:serviceaccount:a:b", &["x", "y"])).headers.unwrap().unwrap();
        assert_eq!(
            (user, groups),
            (HeaderValue::from_static("system:serviceaccount:a:b"), HeaderValue::from_static("x|y"))
        );
        let (_, groups) = identity(info("a", &[])).headers.unwrap().unwrap();
        assert_eq!(groups, "", "present and empty");
    }

    /// W11, HDR-09, HDR-10.
    #[test]
    fn what_no_header_can_say_is_not_said() {
        assert_eq!(identity(info("a", &["x|admins"])).headers.unwrap(), Err(Unspeakable::Separator));
        for name in ["a\nb", "a\rb", "a\0b"] {
            assert_eq!(identity(info(name, &[])).headers.unwrap(), Err(Unspeakable::Characters), "{name:?}");
        }
    }

    #[test]
    fn a_review_begins_with_all_that_is_known() {
        let user: UserInfo = serde_json::from_str(
            r#"{"username":"a\"b","uid":"1","groups":["g"],"extra":{"k":["v"]},"other":1}"#,
        )
        .unwrap();
        assert_eq!(&*identity(user).spec, r#"{"user":"a\"b","uid":"1","groups":["g"],"extra":{"k":["v"]}"#);
        let bare: UserInfo = serde_json::from_str(r#"{"username":"a","groups":null,"extra":null}"#).unwrap();
        assert_eq!(&*identity(bare).spec, r#"{"user":"a""#);
    }

    #[test]
    fn two_who_differ_in_anything_have_digests_of_their_own() {
        let secret = Secret::new().unwrap();
        let digest = |info| Identity::new(info, None, &secret).unwrap().digest;
        let plain = digest(info("a", &["g"]));
        assert_eq!(plain, digest(info("a", &["g"])));
        assert_ne!(plain, digest(UserInfo { uid: "1".into(), ..info("a", &["g"]) }));
        let extra = BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]);
        assert_ne!(plain, digest(UserInfo { extra, ..info("a", &["g"]) }));
    }
}
