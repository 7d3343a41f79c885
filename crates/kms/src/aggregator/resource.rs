//! Objects of other people's kinds: only their metadata is known, and what is read of spec and status is looked for there.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use kube::core::{ClusterResourceScope, ObjectMeta, TypeMeta};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::target::Target;

/// The name of a kind.
pub(super) trait Kind: Clone + Debug + Send + Sync + 'static {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
}

/// A kind that reports stand on.
pub(super) trait Reported: Kind {
    const TARGET: Target;
}

macro_rules! kinds {
    ($($name:ident: $group:literal $version:literal $kind:literal $plural:literal $(= $target:ident)?;)*) => {
        $(#[derive(Clone, Debug)]
        pub(super) struct $name;

        impl Kind for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
        }

        $(impl Reported for $name {
            const TARGET: Target = Target::$target;
        })?)*
    };
}

kinds! {
    KubeApiServer: "operator.openshift.io" "v1" "KubeAPIServer" "kubeapiservers" = KubeApiServer;
    OpenShiftApiServer: "operator.openshift.io" "v1" "OpenShiftAPIServer" "openshiftapiservers" = OpenShiftApiServer;
    Authentication: "operator.openshift.io" "v1" "Authentication" "authentications" = Authentication;
    KmsHealth: "outrigger.dev" "v1alpha1" "KMSHealth" "kmshealths" = KmsHealth;
    ClusterOperator: "config.openshift.io" "v1" "ClusterOperator" "clusteroperators";
}

/// An object of such a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Raw<K: Kind> {
    #[serde(flatten)]
    types: Option<TypeMeta>,
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) status: Value,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: Kind> Raw<K> {
    /// A new object without a spec.
    pub(super) fn named(name: &str) -> Self {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let types = TypeMeta { api_version: format!("{}/{}", K::GROUP, K::VERSION), kind: K::KIND.into() };
        Self { types: Some(types), metadata, spec: json!({}), status: Value::Null, kind: PhantomData }
    }

    /// The object as a document that patches can be made against.
    pub(super) fn document(&self) -> Value {
        json!({ "status": self.status })
    }

    /// What an apply of our fields begins with.
    pub(super) fn head(&self) -> Value {
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
