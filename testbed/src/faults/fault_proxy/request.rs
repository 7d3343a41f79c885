//! What a request asks for, in Kubernetes' own words. The reading follows the API server's `RequestInfoFactory`: a fault
//! that hits "every list of pods" must mean by it what RBAC and the audit log mean.

use http::Method;
use serde::{Deserialize, Serialize};

use super::query::{Query, decode};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// Makes an object, or calls a subresource.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object; server-side apply is one of these.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
    /// None of these.
    Other,
}

impl Verb {
    /// The verbs that ask for a change.
    pub const WRITES: [Self; 5] =
        [Self::Create, Self::Update, Self::Patch, Self::Delete, Self::DeleteCollection];

    fn of(method: &Method) -> Self {
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

/// A collection of the API, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// Name in the plural, as in the path.
    pub plural: String,
}

impl Resource {
    /// A resource by its group and its name in the plural.
    pub fn new(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// The resource of a type.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self {
        Self::new(K::group(&()), K::plural(&()))
    }
}

/// One request, and who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The user of the client's certificate, or the one that its token claims to be; empty for none.
    pub user: String,
    /// User agent; empty for none.
    pub agent: String,
    /// What is done.
    pub verb: Verb,
    /// API group; empty for the core group and for paths that are no resource.
    pub group: String,
    /// Resource, in the plural; empty for paths that are no resource.
    pub resource: String,
    /// Subresource, such as `status`; empty for none.
    pub subresource: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Object's name; empty for none. A collection that is narrowed to one name counts as having it.
    pub name: String,
    /// The path, as it was asked.
    pub path: String,
    /// What stands after the question mark.
    pub query: String,
}

impl Asked {
    /// Reads a request.
    pub(super) fn read(method: &Method, path: &str, query: &str, user: String, agent: String) -> Self {
        let mut asked = Self {
            user,
            agent,
            verb: Verb::of(method),
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: path.into(),
            query: query.into(),
        };
        asked.read_path(path);
        asked.read_query(&Query::parse(query));
        asked
    }

    /// True when it asks for a change.
    #[must_use]
    pub fn is_write(&self) -> bool {
        Verb::WRITES.contains(&self.verb)
    }

    fn read_path(&mut self, path: &str) {
        let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, mut rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return,
        };
        // Old clients say it in the path.
        if let ["watch", others @ ..] = rest {
            self.verb = Verb::Watch;
            rest = others;
        }
        if let ["namespaces", namespace, others @ ..] = rest {
            self.namespace = (*namespace).into();
            // What follows is a resource of the namespace, unless the namespace itself is meant.
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

    fn read_query(&mut self, query: &Query) {
        if self.resource.is_empty() || !self.name.is_empty() {
            return;
        }
        self.verb = match self.verb {
            Verb::Get if query.is_on("watch") => Verb::Watch,
            Verb::Get => Verb::List,
            Verb::Delete => Verb::DeleteCollection,
            other => other,
        };
        let one = query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
        if matches!(self.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
            && let Some(name) = one.filter(|name| !name.contains(','))
        {
            self.name = name.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, address: &str) -> Asked {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        Asked::read(&method, path, query, "jane".into(), "test/1".into())
    }

    /// Verb, group, resource, subresource, namespace, name.
    type Reading = (Verb, &'static str, &'static str, &'static str, &'static str, &'static str);

    #[test]
    fn a_path_is_read_as_the_api_server_reads_it() {
        use Verb::*;
        let get = Method::GET;
        let table: [(Method, &str, Reading); 19] = [
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
            let asked = read(method.clone(), address);
            let seen = (
                asked.verb,
                asked.group.as_str(),
                asked.resource.as_str(),
                asked.subresource.as_str(),
                asked.namespace.as_str(),
                asked.name.as_str(),
            );
            assert_eq!(seen, expected, "{method} {address}");
        }
    }

    #[test]
    fn writes_are_the_verbs_that_change_something() {
        assert!(read(Method::POST, "/api/v1/namespaces/a/configmaps").is_write());
        assert!(!read(Method::GET, "/api/v1/namespaces/a/configmaps").is_write());
    }
}
