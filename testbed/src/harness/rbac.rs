//! Compares the permissions that roles grant with the requests that were sent, to find unused permissions.

use std::fmt;

use serde_json::Value;

use crate::cluster::control_plane::AuditedRequest;

/// One permission granted by a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Namespace of the Role; `None` for a ClusterRole.
    pub namespace: Option<String>,
    /// API group.
    pub group: String,
    /// Plural resource name, with subresource.
    pub resource: String,
    /// Object name; `None` for all.
    pub name: Option<String>,
    /// Verb.
    pub verb: String,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.verb, self.resource, self.group)?;
        self.name.iter().try_for_each(|name| write!(f, "/{name}"))?;
        self.namespace.iter().try_for_each(|namespace| write!(f, " in {namespace}"))
    }
}

impl Permission {
    /// Whether an allowed request needed this permission, even if the object was not found.
    fn is_needed_by(&self, request: &AuditedRequest) -> bool {
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        // Server-side apply of a missing object is authorized as create.
        let verb = self.verb == request.verb
            || (self.verb == "create" && request.verb == "patch" && request.code == 201);
        !matches!(request.code, 401 | 403)
            && verb
            && self.group == request.group
            && self.resource == resource
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
    }
}

/// Returns every permission that the roles in these documents grant.
#[must_use]
pub fn granted(documents: &[Value]) -> Vec<Permission> {
    let texts = |rule: &Value, name: &str| -> Vec<String> {
        let all = rule[name].as_array().into_iter().flatten();
        all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut permissions = Vec::new();
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
                        permissions.extend(texts(rule, "verbs").into_iter().map(|verb| Permission {
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
    permissions
}

/// API groups whose self reviews every authenticated user may create.
const SELF_REVIEWS: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];

/// Whether the roles in these documents grant a request, or Kubernetes grants it to every authenticated user.
#[must_use]
pub fn is_granted(documents: &[Value], request: &AuditedRequest) -> bool {
    let is_discovery = request.resource.is_empty();
    let is_self_review =
        SELF_REVIEWS.contains(&request.group.as_str()) && request.resource.starts_with("selfsubject");
    is_discovery
        || is_self_review
        || granted(documents).iter().any(|permission| permission.is_needed_by(request))
}

/// Returns wildcard permissions and those that allow privilege escalation. Our roles grant none.
#[must_use]
pub fn overbroad(documents: &[Value]) -> Vec<String> {
    let is_overbroad = |permission: &Permission| {
        [&permission.group, &permission.resource, &permission.verb].contains(&&"*".to_owned())
            || matches!(permission.verb.as_str(), "escalate" | "bind")
    };
    granted(documents).iter().filter(|permission| is_overbroad(permission)).map(ToString::to_string).collect()
}

/// Returns the permissions that none of these requests used.
#[must_use]
pub fn unused(documents: &[Value], requests: &[AuditedRequest]) -> Vec<String> {
    let permissions = granted(documents);
    let unused = permissions
        .iter()
        .filter(|permission| !requests.iter().any(|request| permission.is_needed_by(request)));
    unused.map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn request(verb: &str, resource: &str, subresource: &str, name: &str, code: u16) -> AuditedRequest {
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
            responded: MicroTime(Timestamp::UNIX_EPOCH),
            body: None,
        }
    }

    #[test]
    fn wildcards_and_escalation_are_overbroad() {
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
            let seen = overbroad(&[role(group, resource, verb)]);
            assert_eq!(seen, [format!("{verb} {resource}.{group}")]);
        }
        assert_eq!(overbroad(&[role("", "pods", "get")]), Vec::<String>::new());
    }

    #[test]
    fn unused_lists_each_verb_resource_and_name() {
        let rules = json!([
            { "apiGroups": [""], "resources": ["pods", "pods/status"], "resourceNames": ["a", "b"], "verbs": ["get", "patch"] },
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] },
        ]);
        let role = json!({ "kind": "Role", "metadata": { "namespace": "n" }, "rules": rules });
        let binding = json!({ "kind": "RoleBinding" });
        let requests = [
            request("get", "pods", "", "a", 200),
            request("patch", "pods", "status", "a", 200),
            request("get", "pods", "", "b", 403),
            request("get", "secrets", "", "whatever", 200),
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
