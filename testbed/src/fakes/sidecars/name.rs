//! Which node is meant: on one shared port, only the host name of a request tells.

use std::fmt;

use api::names::object;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl NodeName {
    /// The node `name` of a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The host name that its sidecar is asked by.
    #[must_use]
    pub fn host(&self) -> String {
        object::pod_host(&self.name, &self.namespace)
    }

    /// The node that a host name, with or without a port, belongs to. A name that only resembles one is nobody's: a
    /// client that spells it wrong would not reach the real pod either.
    pub(super) fn of_host(host: &str) -> Option<Self> {
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
    fn a_host_names_one_node_or_none() {
        let node = NodeName::new("sei", "full-0");
        assert_eq!(node.host(), "full-0-0.full-0.sei.svc.cluster.local");
        assert_eq!(NodeName::of_host(&node.host()), Some(node.clone()));
        assert_eq!(NodeName::of_host(&format!("{}:8443", node.host())), Some(node));
        for wrong in
            ["", "127.0.0.1:80", "a-1.a.sei.svc.cluster.local", "a-0.b.sei.svc.cluster.local", "a-0.a.sei"]
        {
            assert_eq!(NodeName::of_host(wrong), None, "{wrong:?}");
        }
    }
}
