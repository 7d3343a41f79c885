//! Whether rights are needed: those that roles grant, beside what was asked of the API server. A right that nothing uses is one that
//! only a thief would miss.

use std::fmt;

use serde_json::Value;

use crate::cluster::control_plane::AuditedRequest;

/// One thing that a role allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The namespace of a Role; none for a ClusterRole.
    pub namespace: Option<String>,
    /// API group.
    pub group: String,
    /// Resource in the plural, with its subresource.
    pub resource: String,
    /// The object's name; none for all of them.
    pub name: Option<String>,
    /// Verb.
    pub verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.verb, self.resource, self.group)?;
        self.name.iter().try_for_each(|name| write!(f, "/{name}"))?;
        self.namespace.iter().try_for_each(|namespace| write!(f, " in {namespace}"))
    }
}

impl Right {
    /// Whether a request needed it, and was allowed: also one for what is not there.
    fn allows(&self, request: &AuditedRequest) -> bool {
        let asked = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        // An apply of what is not there creates it.
        let verb = self.verb == request.verb
            || (self.verb == "create" && request.verb == "patch" && request.code == 201);
        !matches!(request.code, 401 | 403)
            && verb
            && self.group == request.group
            && self.resource == asked
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
    }
}

/// Everything that the roles among these documents grant, one by one.
#[must_use]
pub fn granted(documents: &[Value]) -> Vec<Right> {
    let texts = |rule: &Value, name: &str| -> Vec<String> {
        let all = rule[name].as_array().into_iter().flatten();
        all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    for role in documents.iter().filter(|one| one["kind"] == "Role" || one["kind"] == "ClusterRole") {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().into_iter().flatten() {
            let mut names: Vec<Option<String>> = texts(rule, "resourceNames").into_iter().map(Some).collect();
            if names.is_empty() {
                names.push(None);
            }
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    for name in &names {
                        rights.extend(texts(rule, "verbs").into_iter().map(|verb| Right {
                            namespace: namespace.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            verb,
                        }));
                    }
                }
            }
        }
    }
    rights
}

/// Whatever is not named, and what makes more rights of these: no role of ours grants such.
#[must_use]
pub fn boundless(documents: &[Value]) -> Vec<String> {
    let is_boundless = |right: &Right| {
        [&right.group, &right.resource, &right.verb].contains(&&"*".to_owned())
            || matches!(right.verb.as_str(), "escalate" | "bind")
    };
    granted(documents).iter().filter(|right| is_boundless(right)).map(ToString::to_string).collect()
}

/// The rights that none of these requests used.
#[must_use]
pub fn unused(documents: &[Value], requests: &[AuditedRequest]) -> Vec<String> {
    let rights = granted(documents);
    let idle = rights.iter().filter(|right| !requests.iter().any(|request| right.allows(request)));
    idle.map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn asked(verb: &str, resource: &str, subresource: &str, name: &str, code: u16) -> AuditedRequest {
        AuditedRequest {
            verb: verb.into(),
            user: "u".into(),
            user_agent: "a".into(),
            group: String::new(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: "n".into(),
            name: name.into(),
            code,
            received: MicroTime(Timestamp::UNIX_EPOCH),
            answered: MicroTime(Timestamp::UNIX_EPOCH),
            body: None,
        }
    }

    #[test]
    fn a_wildcard_anywhere_is_boundless_and_so_is_what_hands_out_rights() {
        let role = |group: &str, resource: &str, verb: &str| {
            let rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
            json!({ "kind": "ClusterRole", "rules": [rule] })
        };
        for (group, resource, verb) in [
            ("*", "pods", "get"),
            ("", "*", "get"),
            ("", "pods", "*"),
            ("rbac.authorization.k8s.io", "roles", "bind"),
            ("rbac.authorization.k8s.io", "roles", "escalate"),
        ] {
            let seen = boundless(&[role(group, resource, verb)]);
            assert_eq!(seen, [format!("{verb} {resource}.{group}")]);
        }
        assert_eq!(boundless(&[role("", "pods", "get")]), Vec::<String>::new());
    }

    #[test]
    fn each_verb_of_each_resource_of_each_name_counts_by_itself() {
        let rules = json!([
            { "apiGroups": [""], "resources": ["pods", "pods/status"], "resourceNames": ["a", "b"], "verbs": ["get", "patch"] },
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] },
        ]);
        let role = json!({ "kind": "Role", "metadata": { "namespace": "n" }, "rules": rules });
        let binding = json!({ "kind": "RoleBinding" });
        let requests = [
            asked("get", "pods", "", "a", 200),
            asked("patch", "pods", "status", "a", 200),
            asked("get", "pods", "", "b", 403),
            asked("get", "secrets", "", "whatever", 200),
        ];
        assert_eq!(granted(&[binding.clone(), role.clone()]).len(), 9);
        assert_eq!(
            unused(&[role, binding], &requests),
            [
                "patch pods./a in n",
                "get pods./b in n",
                "patch pods./b in n",
                "get pods/status./a in n",
                "get pods/status./b in n",
                "patch pods/status./b in n",
            ]
        );
    }
}
