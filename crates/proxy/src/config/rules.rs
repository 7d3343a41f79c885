//! Rules that allow without asking the API server.

use crate::authorization::Attributes;

/// A rule. What is empty fits everything.
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

/// Why a rule cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

impl Rule {
    /// The rule, if it can ever fit.
    pub(crate) fn checked(self) -> Result<Self, Refused> {
        match (self.for_resources, self.path.is_empty()) {
            (true, false) => Err(Refused("resourceRequest is true and path is set: remove one of them")),
            (false, true) => Err(Refused("set path, or resourceRequest: true for a rule about resources")),
            _ => Ok(self),
        }
    }

    pub(super) fn is_for_paths(&self) -> bool {
        !self.for_resources
    }

    /// Whether it allows this. Of its groups, the user must be in one: a rule that names groups must not fit everybody (W9).
    pub(crate) fn allows(&self, user: &str, groups: &[String], attributes: &Attributes<'_>) -> bool {
        let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
        let who = fits(&self.user, user)
            && (self.groups.is_empty() || self.groups.iter().any(|group| groups.contains(group)));
        who && match attributes {
            Attributes::Path { verb, path } => {
                !self.for_resources && fits(&self.verb, verb) && fits(&self.path, path)
            }
            Attributes::Resource { verb, namespace, group, resource, subresource, name, .. } => {
                self.for_resources
                    && fits(&self.verb, verb)
                    && fits(&self.namespace, namespace)
                    && fits(&self.group, group)
                    && fits(&self.resource, resource)
                    && fits(&self.subresource, subresource)
                    && fits(&self.name, name)
            }
        }
    }
}
