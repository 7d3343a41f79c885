//! Reads and updates pods and Secrets in the cluster.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::client::ClientOptions;
use runtime::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::document::Document;
use super::{Args, DocumentFormat, Error, ObjectName};

/// Timeout of one API request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const USER_AGENT: &str = concat!("outrigger-kms-inject/", env!("CARGO_PKG_VERSION"));

/// Field manager of updates.
const FIELD_MANAGER: &str = "outrigger-kms-inject";

/// A lazily connected cluster.
pub(super) struct Cluster {
    access: ClientOptions,
    client: OnceCell<Client>,
}

impl Cluster {
    pub(super) fn new(args: &Args) -> Self {
        let access = ClientOptions { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
        Self { access, client: OnceCell::new() }
    }

    async fn client(&self) -> Result<Client, Error> {
        let client =
            self.client.get_or_try_init(|| async { self.access.connect(USER_AGENT, &Metrics::new()).await });
        Ok(client.await?.clone())
    }

    /// Returns a Secret, if it exists.
    pub(super) async fn secret(&self, name: &ObjectName) -> Result<Option<Secret>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client().await?, &name.namespace);
        send(format!("reading Secret {name}"), api.get_opt(&name.name)).await
    }

    /// Returns a Deployment.
    pub(super) async fn deployment(&self, name: &ObjectName) -> Result<Document, Error> {
        self.document(&deployments(), name).await
    }

    /// Returns the ConfigMap in which an operator stores a static pod.
    pub(super) async fn static_pod(&self, name: &ObjectName) -> Result<Document, Error> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        self.document(&kind, name).await
    }

    /// Returns an object as JSON, so that fields unknown to this version survive.
    async fn document(&self, kind: &ApiResource, name: &ObjectName) -> Result<Document, Error> {
        let source = format!("{} {name}", kind.kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client().await?, &name.namespace, kind);
        let mut object = send(format!("reading {source}"), api.get(&name.name)).await?;
        object.metadata.managed_fields = None;
        let value = serde_json::to_value(&object)
            .map_err(|error| Error::Document { from: source.clone(), why: error.to_string() })?;
        Document::from_value(&source, value, DocumentFormat::Yaml)
    }

    /// Updates the pod template of a Deployment, unless it changed since it was read.
    pub(super) async fn update(&self, document: &Document, pod: &Value) -> Result<(), Error> {
        let meta = &document.value()["metadata"];
        let text = |name: &str| meta[name].as_str().unwrap_or_default();
        // A removed list is sent as null, so that the merge patch deletes it.
        let pod = json!({
            "initContainers": pod["initContainers"], "containers": pod["containers"], "volumes": pod["volumes"],
        });
        let precondition = json!({ "resourceVersion": meta["resourceVersion"], "uid": meta["uid"] });
        let patch = json!({ "metadata": precondition, "spec": { "template": { "spec": pod } } });
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client().await?, text("namespace"), &deployments());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let what = format!("updating {}", document.source());
        match send(what, api.patch(text("name"), &params, &Patch::Merge(&patch))).await {
            Ok(_) => Ok(()),
            Err(Error::Api { source, .. }) if is_conflict(&source) => {
                Err(Error::Stale(document.source().to_owned()))
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

async fn send<T>(what: String, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(source)) => Err(Error::Api { what, source: Box::new(source) }),
        Err(_) => Err(Error::Timeout { what }),
    }
}
