//! Parses requests like the API server's `RequestInfoFactory`, so that "every list of pods" means the same as in
//! RBAC and the audit log.

use http::Method;
use serde::{Deserialize, Serialize};

use super::query::{Query, decode};
use crate::cluster::control_plane::is_stored;

/// Kubernetes request verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection.
    Watch,
    /// Creates an object or calls a subresource.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object, including server-side apply.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
    /// Any other method.
    Other,
}

impl Verb {
    /// The verbs that change objects.
    pub const WRITES: [Self; 5] =
        [Self::Create, Self::Update, Self::Patch, Self::Delete, Self::DeleteCollection];

    fn from_method(method: &Method) -> Self {
        match method.as_str() {
            "GET" | "HEAD" => Self::Get,
            "POST" => Self::Create,
            "PUT" => Self::Update,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// A resource of the API, in any version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name, as in the path.
    pub plural: String,
}

impl Resource {
    /// Creates a resource from group and plural name.
    pub fn new(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// Returns the resource of a type.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self {
        Self::new(K::group(&()), K::plural(&()))
    }
}

/// A parsed request with its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestInfo {
    /// User of the client certificate, or the one that the token claims; empty for none.
    pub user: String,
    /// User agent; empty for none.
    pub agent: String,
    /// Verb.
    pub verb: Verb,
    /// API group; empty for the core group and for non-resource paths.
    pub group: String,
    /// Plural resource name; empty for non-resource paths.
    pub resource: String,
    /// Subresource, such as `status`; empty for none.
    pub subresource: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Object name; empty for none. Also set by a field selector for a single name.
    pub name: String,
    /// Path as sent.
    pub path: String,
    /// Query string.
    pub query: String,
}

impl RequestInfo {
    /// Parses a request.
    pub(super) fn parse(method: &Method, path: &str, query: &str, user: String, agent: String) -> Self {
        let mut info = Self {
            user,
            agent,
            verb: Verb::from_method(method),
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: path.into(),
            query: query.into(),
        };
        info.parse_path(path);
        info.parse_query(&Query::parse(query));
        info
    }

    /// True if it changes an object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        Verb::WRITES.contains(&self.verb) && is_stored(&self.resource, &self.subresource)
    }

    fn parse_path(&mut self, path: &str) {
        let segments: Vec<String> =
            path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, mut rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return,
        };
        // Deprecated watch path.
        if let ["watch", others @ ..] = rest {
            self.verb = Verb::Watch;
            rest = others;
        }
        if let ["namespaces", namespace, others @ ..] = rest {
            self.namespace = (*namespace).into();
            // A resource in the namespace, unless the request is for the namespace itself.
            if !matches!(others, [] | ["status" | "finalize", ..]) {
                rest = others;
            }
        }
        let mut parts = rest.iter().map(|part| (*part).to_owned());
        let Some(resource) = parts.next() else { return };
        self.group = group.into();
        self.resource = resource;
        self.name = parts.next().unwrap_or_default();
        self.subresource = parts.next().unwrap_or_default();
    }

    fn parse_query(&mut self, query: &Query) {
        if self.resource.is_empty() || !self.name.is_empty() {
            return;
        }
        self.verb = match self.verb {
            Verb::Get if query.is_on("watch") => Verb::Watch,
            Verb::Get => Verb::List,
            Verb::Delete => Verb::DeleteCollection,
            other => other,
        };
        let name = query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
        if matches!(self.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
            && let Some(name) = name.filter(|name| !name.contains(','))
        {
            self.name = name.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, address: &str) -> RequestInfo {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        RequestInfo::parse(&method, path, query, "jane".into(), "test/1".into())
    }

    /// Verb, group, resource, subresource, namespace, name.
    type Parsed = (Verb, &'static str, &'static str, &'static str, &'static str, &'static str);

    #[test]
    fn path_is_parsed_like_the_api_server() {
        use Verb::*;
        let get = Method::GET;
        let table: [(Method, &str, Parsed); 19] = [
            (get.clone(), "/api/v1/pods", (List, "", "pods", "", "", "")),
            (get.clone(), "/api/v1/pods?watch=true", (Watch, "", "pods", "", "", "")),
            (get.clone(), "/api/v1/watch/pods", (Watch, "", "pods", "", "", "")),
            (get.clone(), "/api/v1/namespaces/a/pods", (List, "", "pods", "", "a", "")),
            (get.clone(), "/api/v1/namespaces/a/pods/b", (Get, "", "pods", "", "a", "b")),
            (get.clone(), "/api/v1/namespaces/a/pods/b/log?follow=true", (Get, "", "pods", "log", "a", "b")),
            (get.clone(), "/api/v1/namespaces", (List, "", "namespaces", "", "", "")),
            (get.clone(), "/api/v1/namespaces/x", (Get, "", "namespaces", "", "x", "x")),
            (Method::PUT, "/api/v1/namespaces/x/finalize", (Update, "", "namespaces", "finalize", "x", "x")),
            (
                get.clone(),
                "/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Db",
                (Watch, "", "pods", "", "a", "b"),
            ),
            (get.clone(), "/apis/apps/v1/deployments", (List, "apps", "deployments", "", "", "")),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/d/status?fieldManager=m",
                (Patch, "apps", "deployments", "status", "a", "d"),
            ),
            (
                get.clone(),
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                (Get, "rbac.authorization.k8s.io", "clusterroles", "", "", "system:node"),
            ),
            (Method::POST, "/api/v1/namespaces/a/configmaps", (Create, "", "configmaps", "", "a", "")),
            (Method::DELETE, "/api/v1/namespaces/a/pods/b", (Delete, "", "pods", "", "a", "b")),
            (Method::DELETE, "/api/v1/namespaces/a/pods", (DeleteCollection, "", "pods", "", "a", "")),
            (get.clone(), "/apis/apps/v1", (Get, "", "", "", "", "")),
            (get.clone(), "/readyz?verbose", (Get, "", "", "", "", "")),
            (Method::OPTIONS, "/", (Other, "", "", "", "", "")),
        ];
        for (method, address, expected) in table {
            let info = parse(method.clone(), address);
            let parsed = (
                info.verb,
                info.group.as_str(),
                info.resource.as_str(),
                info.subresource.as_str(),
                info.namespace.as_str(),
                info.name.as_str(),
            );
            assert_eq!(parsed, expected, "{method} {address}");
        }
    }

    #[test]
    fn only_changing_verbs_are_writes() {
        assert!(parse(Method::POST, "/api/v1/namespaces/a/configmaps").is_write());
        assert!(!parse(Method::GET, "/api/v1/namespaces/a/configmaps").is_write());
        assert!(!parse(Method::POST, "/api/v1/namespaces/a/serviceaccounts/b/token").is_write());
        assert!(!parse(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").is_write());
    }
}
