//! Names of nodes. On the shared port, only the host name of a request selects the node.

use std::fmt;

use api::names::object;

/// Namespace and name of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl NodeName {
    /// Creates a node name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the DNS name of the node's sidecar.
    #[must_use]
    pub fn host(&self) -> String {
        object::pod_host(&self.name, &self.namespace)
    }

    /// Parses a host name with or without port. Only the exact name is accepted: a misspelled one would not reach
    /// the real pod either.
    pub(super) fn from_host(host: &str) -> Option<Self> {
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let mut labels = host.split('.').skip(1);
        let (name, namespace) = (labels.next()?, labels.next()?);
        let node = Self::new(namespace, name);
        (node.host() == host).then_some(node)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_host_names_are_parsed() {
        let node = NodeName::new("sei", "full-0");
        assert_eq!(node.host(), "full-0-0.full-0.sei.svc.cluster.local");
        assert_eq!(NodeName::from_host(&node.host()), Some(node.clone()));
        assert_eq!(NodeName::from_host(&format!("{}:8443", node.host())), Some(node));
        for wrong in
            ["", "127.0.0.1:80", "a-1.a.sei.svc.cluster.local", "a-0.b.sei.svc.cluster.local", "a-0.a.sei"]
        {
            assert_eq!(NodeName::from_host(wrong), None, "{wrong:?}");
        }
    }
}
