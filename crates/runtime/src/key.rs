//! Namespaced object names.

use std::fmt;

use kube::Resource;
use kube::api::ObjectMeta;

/// Namespace and name of an object. The kind follows from the context.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of `object`.
    #[must_use]
    pub fn from_object<K: Resource>(object: &K) -> Self {
        Self::from(object.meta())
    }
}

impl From<&ObjectMeta> for Key {
    fn from(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
