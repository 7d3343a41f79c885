//! Objects of which only a part is read. Each is kept as long as its node is there.

/// Makes a type stand for a kind of Kubernetes, of which it holds a part.
macro_rules! seen_of {
    ($seen:ty, $kind:ty) => {
        impl kube_core::Resource for $seen {
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

pub(super) use seen_of;
