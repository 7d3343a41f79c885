//! Partial Kubernetes objects: types that hold only the fields the operator reads, to keep the watch cache small.

/// Implements `Resource` for a type that holds part of a Kubernetes kind.
macro_rules! partial_resource {
    ($partial:ty, $kind:ty) => {
        impl kube_core::Resource for $partial {
            type DynamicType = ();
            type Scope = <$kind as kube_core::Resource>::Scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube_core::Resource>::kind(&())
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube_core::Resource>::group(&())
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube_core::Resource>::version(&())
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube_core::Resource>::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use partial_resource;
