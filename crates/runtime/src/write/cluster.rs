//! Writes to cluster-scoped objects, whose status other controllers write as well.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ClusterResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, WriteOutcome, Writer};

/// A cluster-scoped kind that can be written.
pub trait ClusterObject:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> ClusterObject for K where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

impl Writer {
    /// Applies our fields of an object's status, taking over conflicting ones (server-side apply). The write is not guarded by a
    /// resource version: others write the same status all the time, and their fields are not touched.
    pub async fn apply_cluster_status<K: ClusterObject>(
        &self,
        name: &str,
        body: &Value,
    ) -> Result<WriteOutcome<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PatchParams::apply(self.manager).force();
        let sent = self.send(api.patch_status(name, &params, &Patch::Apply(body))).await?;
        Ok(self.count(sent))
    }

    /// Changes an object's status with a JSON patch. If one of its `test` operations fails, nothing is written and the outcome is
    /// [`WriteOutcome::Rejected`].
    pub async fn patch_cluster_status<K: ClusterObject>(
        &self,
        name: &str,
        operations: &[Value],
    ) -> Result<WriteOutcome<K>, Error> {
        let url = format!("{}/{name}/status?fieldManager={}", K::url_path(&(), None), self.manager);
        let body = serde_json::to_vec(operations)?;
        let request = http::Request::patch(url)
            .header(http::header::CONTENT_TYPE, "application/json-patch+json")
            .body(body)
            .map_err(|_| Error::MissingField("a name that is valid in a URL"))?;
        let sent = self.send(self.client.request::<K>(request)).await?;
        Ok(self.count(sent))
    }

    /// Creates an object. If it exists already, the outcome is [`WriteOutcome::Stale`].
    pub async fn create_cluster_object<K: ClusterObject>(
        &self,
        object: &K,
    ) -> Result<WriteOutcome<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() };
        let sent = self.send(api.create(&params, object)).await?;
        Ok(self.count(sent))
    }

    /// Deletes an object, unless it was recreated under the same name.
    pub async fn delete_cluster_object<K: ClusterObject>(
        &self,
        object: &K,
    ) -> Result<WriteOutcome<K>, Error> {
        let uid = object.uid().ok_or(Error::MissingField("uid"))?;
        let api: Api<K> = Api::all(self.client.clone());
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let name = object.name_any();
        let sent = self.send(async { api.delete(&name, &params).await.map(|_| object.clone()) }).await?;
        Ok(self.count(sent))
    }
}
