//! Pods and secrets on a cluster.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::client::Access;
use runtime::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::document::Document;
use super::{Args, Error, Notation, ObjectName};

/// How long the API server may take for one answer.
pub(super) const WITHIN: Duration = Duration::from_secs(30);

const USER_AGENT: &str = concat!("outrigger-kms-inject/", env!("CARGO_PKG_VERSION"));

/// Who has written what we change.
const MANAGER: &str = "outrigger-kms-inject";

/// A cluster, which is connected to only when something is read from it.
pub(super) struct Cluster {
    access: Access,
    client: OnceCell<Client>,
}

impl Cluster {
    pub(super) fn new(args: &Args) -> Self {
        let access = Access { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
        Self { access, client: OnceCell::new() }
    }

    async fn client(&self) -> Result<Client, Error> {
        let made =
            self.client.get_or_try_init(|| async { self.access.connect(USER_AGENT, &Metrics::new()).await });
        Ok(made.await?.clone())
    }

    /// The secret, if there is one.
    pub(super) async fn secret(&self, name: &ObjectName) -> Result<Option<Secret>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client().await?, &name.namespace);
        answer(format!("reading Secret {name}"), api.get_opt(&name.name)).await
    }

    /// A Deployment.
    pub(super) async fn deployment(&self, name: &ObjectName) -> Result<Document, Error> {
        self.document(&deployments(), name).await
    }

    /// A static pod, as its operator keeps it.
    pub(super) async fn static_pod(&self, name: &ObjectName) -> Result<Document, Error> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        self.document(&kind, name).await
    }

    /// An object as JSON: nothing that is newer than our types is lost.
    async fn document(&self, kind: &ApiResource, name: &ObjectName) -> Result<Document, Error> {
        let from = format!("{} {name}", kind.kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client().await?, &name.namespace, kind);
        let mut object = answer(format!("reading {from}"), api.get(&name.name)).await?;
        object.metadata.managed_fields = None;
        let whole = serde_json::to_value(&object)
            .map_err(|error| Error::Document { from: from.clone(), why: error.to_string() })?;
        Document::of(&from, whole, Notation::Yaml)
    }

    /// Changes the pods of a Deployment that was read, if nobody else has changed it since.
    pub(super) async fn apply(&self, document: &Document, pod: &Value) -> Result<(), Error> {
        let meta = &document.whole()["metadata"];
        let text = |name: &str| meta[name].as_str().unwrap_or_default();
        // A list that is gone is named, so that it goes.
        let pod = json!({
            "initContainers": pod["initContainers"], "containers": pod["containers"], "volumes": pod["volumes"],
        });
        let guard = json!({ "resourceVersion": meta["resourceVersion"], "uid": meta["uid"] });
        let patch = json!({ "metadata": guard, "spec": { "template": { "spec": pod } } });
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client().await?, text("namespace"), &deployments());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let what = format!("changing {}", document.from());
        match answer(what, api.patch(text("name"), &params, &Patch::Merge(&patch))).await {
            Ok(_) => Ok(()),
            Err(Error::Api { source, .. }) if is_conflict(&source) => {
                Err(Error::Stale(document.from().to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}

fn deployments() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

async fn answer<T>(what: String, asked: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(WITHIN, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::Api { what, source: Box::new(source) }),
        Err(_) => Err(Error::Late { what }),
    }
}
