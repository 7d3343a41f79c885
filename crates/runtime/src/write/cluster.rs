//! Writes to objects of the whole cluster: only fields of our own, beside other writers who never rest.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ClusterResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, Outcome, Writer};
use crate::metrics::ByOutcome;

/// A kind that belongs to no namespace, and that we write.
pub trait WrittenOfCluster:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> WrittenOfCluster for K where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

impl Writer {
    /// Makes our fields of an object's status be as `body` says, and takes back those that somebody has taken (server-side
    /// apply). Others write the same status all the time: it is not guarded by a version, since nothing of theirs is touched.
    pub async fn apply_status_of_cluster<K: WrittenOfCluster>(
        &self,
        name: &str,
        body: &Value,
    ) -> Result<Outcome<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PatchParams::apply(self.manager).force();
        let sent = self.send(api.patch_status(name, &params, &Patch::Apply(body))).await?;
        Ok(self.count_of_cluster(sent))
    }

    /// Changes an object's status by the operations of a JSON patch. Its tests guard it: where one fails nothing is written, and
    /// the outcome is [`Outcome::Rejected`].
    pub async fn patch_status_of_cluster<K: WrittenOfCluster>(
        &self,
        name: &str,
        operations: &[Value],
    ) -> Result<Outcome<K>, Error> {
        let url = format!("{}/{name}/status?fieldManager={}", K::url_path(&(), None), self.manager);
        let body = serde_json::to_vec(operations)?;
        let request = http::Request::patch(url)
            .header(http::header::CONTENT_TYPE, "application/json-patch+json")
            .body(body)
            .map_err(|_| Error::Lacks("a name that fits into a path"))?;
        let sent = self.send(self.client.request::<K>(request)).await?;
        Ok(self.count_of_cluster(sent))
    }

    /// Makes an object that must not exist yet.
    pub async fn create_of_cluster<K: WrittenOfCluster>(&self, object: &K) -> Result<Outcome<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() };
        let sent = self.send(api.create(&params, object)).await?;
        Ok(self.count_of_cluster(sent))
    }

    /// Deletes this very object, not another one that has its name by now.
    pub async fn delete_of_cluster<K: WrittenOfCluster>(&self, object: &K) -> Result<Outcome<K>, Error> {
        let uid = object.uid().ok_or(Error::Lacks("a uid"))?;
        let api: Api<K> = Api::all(self.client.clone());
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let name = object.name_any();
        let sent = self.send(async { api.delete(&name, &params).await.map(|_| object.clone()) }).await?;
        Ok(self.count_of_cluster(sent))
    }

    fn count_of_cluster<K: WrittenOfCluster>(&self, outcome: Outcome<K>) -> Outcome<K> {
        let labels = ByOutcome { kind: K::kind(&()).into_owned(), outcome: outcome.name().to_owned() };
        self.metrics.writes.get_or_create(&labels).inc();
        outcome
    }
}
