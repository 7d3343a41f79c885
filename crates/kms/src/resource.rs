//! Cluster-scoped custom resources of which only the metadata is typed; spec and status stay JSON.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use kube::core::{ApiResource, ClusterResourceScope, GroupVersionKind, ObjectMeta, TypeMeta};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Group, version, kind and plural of a resource.
pub(crate) trait ResourceKind: Clone + Debug + Send + Sync + 'static {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
}

macro_rules! kinds {
    ($($name:ident: $group:literal $version:literal $kind:literal $plural:literal;)*) => {
        $(#[derive(Clone, Debug)]
        pub(crate) struct $name;

        impl ResourceKind for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
        })*
    };
}

kinds! {
    KubeApiServer: "operator.openshift.io" "v1" "KubeAPIServer" "kubeapiservers";
    OpenShiftApiServer: "operator.openshift.io" "v1" "OpenShiftAPIServer" "openshiftapiservers";
    Authentication: "operator.openshift.io" "v1" "Authentication" "authentications";
    KmsHealth: "outrigger.dev" "v1alpha1" "KMSHealth" "kmshealths";
    ClusterOperator: "config.openshift.io" "v1" "ClusterOperator" "clusteroperators";
    ApiServer: "config.openshift.io" "v1" "APIServer" "apiservers";
}

/// An object of kind `K`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct UntypedObject<K: ResourceKind> {
    #[serde(flatten)]
    types: Option<TypeMeta>,
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) status: Value,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: ResourceKind> UntypedObject<K> {
    /// Returns a new object with an empty spec.
    pub(crate) fn new(name: &str) -> Self {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let types = TypeMeta { api_version: format!("{}/{}", K::GROUP, K::VERSION), kind: K::KIND.into() };
        Self { types: Some(types), metadata, spec: json!({}), status: Value::Null, kind: PhantomData }
    }

    /// Returns a document with the status at `/status`, as JSON patches address it.
    pub(crate) fn status_document(&self) -> Value {
        json!({ "status": self.status })
    }

    /// Returns the identity that starts a server-side apply. The UID keeps it from recreating a deleted object.
    pub(crate) fn apply_identity(&self) -> Value {
        json!({
            "apiVersion": format!("{}/{}", K::GROUP, K::VERSION),
            "kind": K::KIND,
            "metadata": { "name": self.name_any(), "uid": self.uid() },
        })
    }
}

impl<K: ResourceKind> Resource for UntypedObject<K> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Returns the kind for requests with dynamic objects.
pub(crate) fn api_resource<K: ResourceKind>() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(K::GROUP, K::VERSION, K::KIND), K::PLURAL)
}

/// Watches only the object with this name, which RBAC can allow by `resourceNames`.
pub(crate) fn watch_by_name(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}
