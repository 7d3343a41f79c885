//! Which requests a fault applies to, and how often.

use serde::{Deserialize, Serialize};

use super::request::{RequestInfo, Resource, Verb};

/// Selects requests. All given criteria must match; without any, every request matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestMatcher {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_write: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<Verb>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl RequestMatcher {
    /// Matches every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches every write.
    #[must_use]
    pub fn writes() -> Self {
        Self { is_write: true, ..Self::default() }
    }

    /// Matches this verb. Called several times: any of them.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Matches this resource, including its subresources.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Matches this subresource; empty matches only requests without a subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Matches this namespace. Lists and watches across namespaces do not match.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Matches this object name. A `create` has its name in the body, which is not read, so it does not match.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Matches this user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Matches a prefix of the user agent.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    pub(super) fn matches(&self, info: &RequestInfo) -> bool {
        let equal =
            |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|wanted| wanted == actual);
        (self.verbs.is_empty() || self.verbs.contains(&info.verb))
            && (!self.is_write || info.is_write())
            && self
                .resource
                .as_ref()
                .is_none_or(|wanted| wanted.group == info.group && wanted.plural == info.resource)
            && equal(&self.subresource, &info.subresource)
            && equal(&self.namespace, &info.namespace)
            && equal(&self.name, &info.name)
            && equal(&self.user, &info.user)
            && self.agent.as_deref().is_none_or(|wanted| info.agent.starts_with(wanted))
    }
}

/// Which matches a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Only the n-th match, starting at 1.
    Nth(u64),
    /// The first n matches.
    First(u64),
    /// Every match until the fault is removed.
    Always,
}

impl Times {
    /// Only the next match.
    pub const ONCE: Self = Self::Nth(1);

    /// True if the fault applies to the match with this number, starting at 1.
    pub(super) fn includes(self, number: u64) -> bool {
        match self {
            Self::Nth(wanted) => number == wanted,
            Self::First(count) => number <= count,
            Self::Always => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;

    fn info() -> RequestInfo {
        let path = "/apis/apps/v1/namespaces/a/deployments/d/status";
        RequestInfo::parse(&Method::PATCH, path, "", "jane".into(), "operator/1.2 (linux)".into())
    }

    #[test]
    fn all_criteria_must_match() {
        let matching = [
            RequestMatcher::any(),
            RequestMatcher::writes(),
            RequestMatcher::any().verb(Verb::Get).verb(Verb::Patch),
            RequestMatcher::any().resource(Resource::of::<Deployment>()),
            RequestMatcher::any().subresource("status").namespace("a").name("d"),
            RequestMatcher::any().user("jane").agent("operator/"),
        ];
        for matcher in matching {
            assert!(matcher.matches(&info()), "{matcher:?}");
        }
        let others = [
            RequestMatcher::any().verb(Verb::Get),
            RequestMatcher::writes().resource(Resource::new("", "deployments")),
            RequestMatcher::any().resource(Resource::new("apps", "replicasets")),
            RequestMatcher::any().subresource(""),
            RequestMatcher::any().namespace("b"),
            RequestMatcher::any().name("e"),
            RequestMatcher::any().user("jan"),
            RequestMatcher::any().agent("perator"),
        ];
        for matcher in others {
            assert!(!matcher.matches(&info()), "{matcher:?}");
        }
    }

    #[test]
    fn non_resource_path_matches_no_resource() {
        let info = RequestInfo::parse(&Method::GET, "/readyz", "", String::new(), String::new());
        assert!(RequestMatcher::any().matches(&info));
        assert!(!RequestMatcher::any().resource(Resource::new("", "pods")).matches(&info));
    }

    #[test]
    fn matches_are_counted_from_one() {
        let included = |times: Times| (1..=4).filter(|number| times.includes(*number)).collect::<Vec<_>>();
        assert_eq!(included(Times::ONCE), [1]);
        assert_eq!(included(Times::Nth(3)), [3]);
        assert_eq!(included(Times::First(2)), [1, 2]);
        assert_eq!(included(Times::Always), [1, 2, 3, 4]);
    }
}
