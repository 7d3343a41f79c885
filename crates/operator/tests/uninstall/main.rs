//! Uninstalls the operator with kubectl, as users do, and installs it again. On its own API server, since all tests of a suite
//! share the permissions that are deleted here.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

#[path = "../node_operator/fixture.rs"]
#[expect(dead_code, reason = "other suites use the rest")]
mod fixture;

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use operator::install::{ACCOUNT, NAMESPACE};
use serde::de::DeserializeOwned;
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::Fixture;

testbed::suite![uninstalled_operator_leaves_crds_nodes_and_data];

/// The platform of the README.
const PLATFORM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/platform");

async fn uninstalled_operator_leaves_crds_nodes_and_data(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let apply = ["apply", "--server-side", "--force-conflicts", "-k", PLATFORM];
    kubectl::run(fixture.plane, &apply, None)?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture
        .create_ready("signer", |node| {
            node["spec"].as_object_mut().expect("an object").remove("fullNode");
            node["spec"]["validator"] = json!({});
        })
        .await?;
    fixture.assert_no_writes(Duration::from_secs(2)).await?;
    let before = objects(&fixture).await?;
    for object in ["SeiNode full", "Pod signer-0", "PersistentVolumeClaim data-full", "StatefulSet full"] {
        assert!(before.iter().any(|one| one.starts_with(object)), "{object}: {before:#?}");
    }
    operator.kill()?;
    kubectl::run(fixture.plane, &["delete", "-k", PLATFORM, "--timeout=120s"], None)?;
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    assert!(namespaces.get_opt(NAMESPACE).await?.is_none(), "the operator is deleted");
    // Time for the garbage collector.
    wait::throughout("nothing else is deleted", Duration::from_secs(5), || async {
        let now = objects(&fixture).await.map_err(|error| error.to_string())?;
        if now == before { Ok(()) } else { Err(format!("{now:#?}")) }
    })
    .await?;
    kubectl::run(fixture.plane, &apply, None)?;
    let deployments: Api<Deployment> = Api::namespaced(fixture.client.clone(), NAMESPACE);
    assert!(deployments.get_opt(ACCOUNT).await?.is_some(), "it is installed again");
    let operator = fixture.start_operator()?;
    // An edit shows that the new operator has started; it replaces no pod.
    fixture.edit("full", json!({ "spec": { "dataVolume": { "deletionPolicy": "Retain" } } })).await?;
    let is_retained = |claim: &PersistentVolumeClaim| claim.owner_references().is_empty();
    fixture.wait_until_object("data-full", "it is retained", is_retained).await?;
    for name in ["full", "signer"] {
        fixture.wait_ready(name, "it is in sync").await?;
    }
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(objects(&fixture).await?, before, "the same objects");
    assert_eq!(fixture.pod_deletion_count()?, 0);
    operator.check_alive()?;
    Ok(())
}

/// Returns the CRDs and every object of the namespace, each with its uid, and whether it is being deleted.
async fn objects(fixture: &Fixture<'_>) -> Result<Vec<String>, Error> {
    let crds: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    let mut all = list(crds).await?;
    all.extend(list(fixture.nodes()).await?);
    all.extend(list(fixture.api::<StatefulSet>()).await?);
    all.extend(list(fixture.api::<Pod>()).await?);
    all.extend(list(fixture.api::<PersistentVolumeClaim>()).await?);
    all.extend(list(fixture.api::<Service>()).await?);
    all.extend(list(fixture.api::<ConfigMap>()).await?);
    all.extend(list(fixture.api::<NetworkPolicy>()).await?);
    all.extend(list(fixture.api::<ServiceAccount>()).await?);
    all.extend(list(fixture.api::<Secret>()).await?);
    all.sort();
    Ok(all)
}

async fn list<K>(api: Api<K>) -> Result<Vec<String>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let describe = |object: K| {
        let state = object.meta().deletion_timestamp.as_ref().map_or("", |_| " (being deleted)");
        format!("{} {} {}{state}", K::kind(&()), object.name_any(), object.uid().unwrap_or_default())
    };
    Ok(api.list(&ListParams::default()).await?.items.into_iter().map(describe).collect())
}
