//! A fleet of the tests.

use std::time::Duration;

use api::fleet::SeiNodeDeploymentStatus;
use api::{SeiNode, SeiNodeDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::Error;
use testbed::harness::wait;

use crate::fixture::{Fixture, IMAGE};

/// The timeout of a rollout.
pub const TIMEOUT: Duration = Duration::from_secs(240);

/// A fleet named `f`.
pub struct Fleet<'a> {
    pub fixture: &'a Fixture<'a>,
}

impl<'a> Fleet<'a> {
    /// Creates a fleet of full nodes, modified by `change`.
    pub async fn create(
        fixture: &'a Fixture<'a>,
        replicas: i32,
        change: impl FnOnce(&mut Value),
    ) -> Result<Self, Error> {
        let mut fleet = json!({
            "apiVersion": "sei.io/v1alpha1", "kind": "SeiNodeDeployment", "metadata": { "name": "f" },
            "spec": {
                "replicas": replicas,
                "template": { "spec": { "chainId": "arctic-1", "image": IMAGE, "fullNode": {} } },
                "updateStrategy": { "maxUnavailable": 1 },
            },
        });
        change(&mut fleet);
        let fleet: SeiNodeDeployment = serde_json::from_value(fleet).expect("a valid fleet");
        fixture.api::<SeiNodeDeployment>().create(&PostParams::default(), &fleet).await?;
        Ok(Self { fixture })
    }

    /// Creates a fleet and waits until all its nodes are available.
    pub async fn create_available(
        fixture: &'a Fixture<'a>,
        replicas: i32,
        change: impl FnOnce(&mut Value),
    ) -> Result<Self, Error> {
        let fleet = Self::create(fixture, replicas, change).await?;
        fleet
            .wait("all nodes are available", |_, status| status.available_replicas == Some(replicas))
            .await?;
        Ok(fleet)
    }

    pub async fn get(&self) -> Result<SeiNodeDeployment, Error> {
        Ok(self.fixture.api::<SeiNodeDeployment>().get("f").await?)
    }

    /// Edits the fleet.
    pub async fn edit(&self, patch: Value) -> Result<SeiNodeDeployment, Error> {
        let patch = Patch::Merge(patch);
        Ok(self.fixture.api::<SeiNodeDeployment>().patch("f", &PatchParams::default(), &patch).await?)
    }

    /// Edits the image.
    pub async fn edit_image(&self, image: &str) -> Result<SeiNodeDeployment, Error> {
        self.edit(json!({ "spec": { "template": { "spec": { "image": image } } } })).await
    }

    /// Waits until the fleet fulfills a condition.
    pub async fn wait(
        &self,
        what: &str,
        condition: impl Fn(&SeiNodeDeployment, &SeiNodeDeploymentStatus) -> bool,
    ) -> Result<SeiNodeDeployment, Error> {
        wait::until(format!("fleet: {what}"), TIMEOUT, || async {
            let fleet = self.get().await.map_err(|error| error.to_string())?;
            let status = fleet.status.clone().unwrap_or_default();
            if condition(&fleet, &status) {
                return Ok(fleet);
            }
            Err(serde_json::to_string(&status).unwrap_or_default())
        })
        .await
    }

    /// Waits until every node has the newest revision and is available.
    pub async fn wait_complete(&self, what: &str) -> Result<SeiNodeDeployment, Error> {
        self.wait(what, |fleet, status| status.reconciled_generation == fleet.metadata.generation).await
    }

    /// Returns the nodes of the namespace, sorted by name.
    pub async fn nodes(&self) -> Result<Vec<SeiNode>, Error> {
        let mut nodes = self.fixture.nodes().list(&ListParams::default()).await?.items;
        nodes.sort_by_key(ResourceExt::name_any);
        Ok(nodes)
    }

    /// Returns the names of the nodes with an image in their spec.
    pub async fn with_image(&self, image: &str) -> Result<Vec<String>, Error> {
        let nodes = self.nodes().await?;
        let matching = nodes.iter().filter(|node| node.spec.image == image);
        Ok(matching.map(ResourceExt::name_any).collect())
    }
}

/// Returns a condition.
pub fn condition<'s>(status: &'s SeiNodeDeploymentStatus, type_: &str) -> Option<&'s Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns whether a condition has a reason.
pub fn has_reason(status: &SeiNodeDeploymentStatus, type_: &str, reason: &str) -> bool {
    condition(status, type_).is_some_and(|condition| condition.reason == reason)
}
