//! Which requests a fault is meant for, and which of these it takes.

use serde::{Deserialize, Serialize};

use super::request::{Asked, Resource, Verb};

/// Which requests a fault is meant for: those that fit everything said here. Nothing said means every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Matching {
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

impl Matching {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Every request that asks for a change.
    #[must_use]
    pub fn writes() -> Self {
        Self { verbs: Verb::WRITES.into(), ..Self::default() }
    }

    /// With this verb. Said several times: with any of them.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// For this resource, with all its subresources.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resource = Some(resource);
        self
    }

    /// For this subresource; with an empty text, for the objects themselves and no subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// In this namespace. A list or a watch of all namespaces is in none.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// For the object of this name. A `create` has its name in the body, which is not read: it does not fit.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// From this user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// From a client whose user agent begins so.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    pub(super) fn fits(&self, asked: &Asked) -> bool {
        let same =
            |wanted: &Option<String>, seen: &str| wanted.as_deref().is_none_or(|wanted| wanted == seen);
        (self.verbs.is_empty() || self.verbs.contains(&asked.verb))
            && self
                .resource
                .as_ref()
                .is_none_or(|wanted| wanted.group == asked.group && wanted.plural == asked.resource)
            && same(&self.subresource, &asked.subresource)
            && same(&self.namespace, &asked.namespace)
            && same(&self.name, &asked.name)
            && same(&self.user, &asked.user)
            && self.agent.as_deref().is_none_or(|wanted| asked.agent.starts_with(wanted))
    }
}

/// Which of the matches a fault takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Only the n-th match, counted from one.
    Nth(u64),
    /// The first n matches.
    First(u64),
    /// Every match, until the fault is lifted.
    Always,
}

impl Times {
    /// The next match, and no other.
    pub const ONCE: Self = Self::Nth(1);

    /// True when the match with this number, counted from one, is to be taken.
    pub(super) fn take(self, number: u64) -> bool {
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

    fn asked() -> Asked {
        let path = "/apis/apps/v1/namespaces/a/deployments/d/status";
        Asked::read(&Method::PATCH, path, "", "jane".into(), "operator/1.2 (linux)".into())
    }

    #[test]
    fn everything_said_must_fit() {
        let fitting = [
            Matching::any(),
            Matching::writes(),
            Matching::any().verb(Verb::Get).verb(Verb::Patch),
            Matching::any().resource(Resource::of::<Deployment>()),
            Matching::any().subresource("status").namespace("a").name("d"),
            Matching::any().user("jane").agent("operator/"),
        ];
        for matching in fitting {
            assert!(matching.fits(&asked()), "{matching:?}");
        }
        let others = [
            Matching::any().verb(Verb::Get),
            Matching::writes().resource(Resource::new("", "deployments")),
            Matching::any().resource(Resource::new("apps", "replicasets")),
            Matching::any().subresource(""),
            Matching::any().namespace("b"),
            Matching::any().name("e"),
            Matching::any().user("jan"),
            Matching::any().agent("perator"),
        ];
        for matching in others {
            assert!(!matching.fits(&asked()), "{matching:?}");
        }
    }

    #[test]
    fn a_path_that_is_no_resource_is_of_no_resource() {
        let asked = Asked::read(&Method::GET, "/readyz", "", String::new(), String::new());
        assert!(Matching::any().fits(&asked));
        assert!(!Matching::any().resource(Resource::new("", "pods")).fits(&asked));
    }

    #[test]
    fn matches_are_counted_from_one() {
        let taken = |times: Times| (1..=4).filter(|number| times.take(*number)).collect::<Vec<_>>();
        assert_eq!(taken(Times::ONCE), [1]);
        assert_eq!(taken(Times::Nth(3)), [3]);
        assert_eq!(taken(Times::First(2)), [1, 2]);
        assert_eq!(taken(Times::Always), [1, 2, 3, 4]);
    }
}
