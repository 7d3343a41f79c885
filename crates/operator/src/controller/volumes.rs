//! Reads the volumes of imported claims. Volumes are cluster-scoped: an installation with namespaced permissions only cannot read them,
//! and nodes are set up with what their claims report.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::PostParams;
use kube::{Api, Client};
use plan::node::VolumeObservation;
use tokio::sync::OnceCell;

/// Reads volumes, if the operator is permitted to.
pub(super) struct VolumeReader {
    client: Client,
    is_permitted: OnceCell<bool>,
}

impl VolumeReader {
    pub(super) fn new(client: Client) -> Self {
        Self { client, is_permitted: OnceCell::new() }
    }

    /// Reads a volume.
    pub(super) async fn get(&self, name: &str) -> kube::Result<VolumeObservation> {
        if !*self.is_permitted.get_or_try_init(|| is_permitted(&self.client)).await? {
            return Ok(VolumeObservation::NotPermitted);
        }
        let volume = Api::<PersistentVolume>::all(self.client.clone()).get_opt(name).await?;
        Ok(volume.map_or(VolumeObservation::Missing, |volume| VolumeObservation::Found(Arc::new(volume))))
    }
}

/// Asks the API server whether the operator may read volumes: a request that is denied would look like an error in the audit log.
async fn is_permitted(client: &Client) -> kube::Result<bool> {
    let attributes = ResourceAttributes {
        verb: Some("get".into()),
        resource: Some("persistentvolumes".into()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviewed = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    let is_permitted = reviewed.status.is_some_and(|status| status.allowed);
    if !is_permitted {
        tracing::info!(
            "not permitted to get PersistentVolumes; imported claims are validated without their volumes"
        );
    }
    Ok(is_permitted)
}
