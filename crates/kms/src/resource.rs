//! Objects of other people's kinds: only their metadata is known, and what is read of spec and status is looked for there.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use kube::core::{ApiResource, ClusterResourceScope, GroupVersionKind, ObjectMeta, TypeMeta};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of a kind.
pub(crate) trait Kind: Clone + Debug + Send + Sync + 'static {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
}

macro_rules! kinds {
    ($($name:ident: $group:literal $version:literal $kind:literal $plural:literal;)*) => {
        $(#[derive(Clone, Debug)]
        pub(crate) struct $name;

        impl Kind for $name {
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

/// An object of such a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Raw<K: Kind> {
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

impl<K: Kind> Raw<K> {
    /// A new object without a spec.
    pub(crate) fn named(name: &str) -> Self {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let types = TypeMeta { api_version: format!("{}/{}", K::GROUP, K::VERSION), kind: K::KIND.into() };
        Self { types: Some(types), metadata, spec: json!({}), status: Value::Null, kind: PhantomData }
    }

    /// The object as a document that patches can be made against.
    pub(crate) fn document(&self) -> Value {
        json!({ "status": self.status })
    }

    /// What an apply of our fields begins with.
    pub(crate) fn head(&self) -> Value {
        json!({
            "apiVersion": format!("{}/{}", K::GROUP, K::VERSION),
            "kind": K::KIND,
            "metadata": { "name": self.name_any(), "uid": self.uid() },
        })
    }
}

impl<K: Kind> Resource for Raw<K> {
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

/// The kind, for requests about objects of which nothing is known.
pub(crate) fn dynamic<K: Kind>() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(K::GROUP, K::VERSION, K::KIND), K::PLURAL)
}

/// Only the object of a name: so much may also be allowed to be watched, and no more.
pub(crate) fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}
