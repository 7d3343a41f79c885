//! Static rules, which allow requests without a SubjectAccessReview.

use crate::authorization::Attributes;

/// A static rule. An empty field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) verb: String,
    pub(crate) namespace: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) for_resources: bool,
}

/// Why a rule is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidRule(pub(crate) &'static str);

impl Rule {
    /// Validates the rule: one that can never match is an error.
    pub(crate) fn validate(self) -> Result<Self, InvalidRule> {
        match (self.for_resources, self.path.is_empty()) {
            (true, false) => Err(InvalidRule("resourceRequest is true and path is set: remove one of them")),
            (false, true) => {
                Err(InvalidRule("set path, or resourceRequest: true for a rule about resources"))
            }
            _ => Ok(self),
        }
    }

    pub(super) fn is_for_paths(&self) -> bool {
        !self.for_resources
    }

    /// Returns whether the rule allows the request. With `groups`, the user must be a member of one of them.
    pub(crate) fn allows(&self, user: &str, groups: &[String], attributes: &Attributes<'_>) -> bool {
        let matches = |expected: &str, actual: &str| expected.is_empty() || expected == actual;
        let matches_user = matches(&self.user, user)
            && (self.groups.is_empty() || self.groups.iter().any(|group| groups.contains(group)));
        matches_user
            && match attributes {
                Attributes::Path { verb, path } => {
                    !self.for_resources && matches(&self.verb, verb) && matches(&self.path, path)
                }
                Attributes::Resource { verb, namespace, group, resource, subresource, name, .. } => {
                    self.for_resources
                        && matches(&self.verb, verb)
                        && matches(&self.namespace, namespace)
                        && matches(&self.group, group)
                        && matches(&self.resource, resource)
                        && matches(&self.subresource, subresource)
                        && matches(&self.name, name)
                }
            }
    }
}
