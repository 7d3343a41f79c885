//! The workloads: what a user does to a node.

use std::collections::BTreeMap;

use api::names::{finalizer, object};
use k8s_openapi::ByteString;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::Error;
use testbed::cluster::pki::{CertificateAuthority, ServerNames};
use testbed::harness::wait;

use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT};

/// The node of all workloads.
pub const NODE: &str = "full";

const TLS_SECRET: &str = "certificate";

/// An action of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Creates a node.
    Init,
    /// Changes the image and the peers.
    Update,
    /// Enables sidecar TLS.
    TlsOn,
    /// Disables sidecar TLS.
    TlsOff,
    /// Creates a node that bootstraps from a snapshot.
    Bootstrap,
    /// Deletes a node with the finalizer of the upstream controller, with background propagation.
    DeleteBackground,
    /// Deletes a node with the finalizer of the upstream controller, with foreground propagation.
    DeleteForeground,
}

impl Workload {
    /// Creates what must exist before the user acts.
    pub async fn prepare(self, fixture: &Fixture<'_>) -> Result<(), Error> {
        match self {
            Self::Init | Self::Bootstrap => return Ok(()),
            Self::TlsOn => create_certificate(fixture).await?,
            Self::TlsOff => {
                create_certificate(fixture).await?;
                fixture.create_ready(NODE, |node| node["spec"]["sidecar"] = tls()).await?;
                return Ok(());
            }
            Self::Update => {}
            Self::DeleteBackground | Self::DeleteForeground => {
                let with_finalizer =
                    |node: &mut Value| node["metadata"]["finalizers"] = json!([finalizer::NODE]);
                fixture.create_ready(NODE, with_finalizer).await?;
                return Ok(());
            }
        }
        fixture.create_ready(NODE, |_| {}).await.map(drop)
    }

    /// Performs the action of the user.
    pub async fn start(self, fixture: &Fixture<'_>) -> Result<(), Error> {
        match self {
            Self::Init => fixture.create(NODE, |node| node["spec"]["peers"] = peers()).await.map(drop),
            Self::Bootstrap => {
                let snapshot = json!({ "s3": { "targetHeight": 1000 }, "bootstrapImage": OTHER_IMAGE });
                fixture.create(NODE, |node| node["spec"]["fullNode"]["snapshot"] = snapshot).await.map(drop)
            }
            Self::Update => {
                let spec = json!({ "spec": { "image": OTHER_IMAGE, "peers": peers() } });
                fixture.edit(NODE, spec).await.map(drop)
            }
            Self::TlsOn => fixture.edit(NODE, json!({ "spec": { "sidecar": tls() } })).await.map(drop),
            Self::TlsOff => {
                fixture.edit(NODE, json!({ "spec": { "sidecar": { "tls": null } } })).await.map(drop)
            }
            Self::DeleteBackground => delete(fixture, PropagationPolicy::Background).await,
            Self::DeleteForeground => delete(fixture, PropagationPolicy::Foreground).await,
        }
    }

    /// Waits until the action has had its effect.
    pub async fn wait_done(self, fixture: &Fixture<'_>) -> Result<(), Error> {
        match self {
            Self::DeleteBackground | Self::DeleteForeground => {
                wait::until("all objects of the node are deleted", TIMEOUT, || async {
                    let remaining = remaining(fixture).await.map_err(|error| error.to_string())?;
                    if remaining.is_empty() { Ok(()) } else { Err(format!("{remaining:?}")) }
                })
                .await
            }
            _ => fixture.wait_ready(NODE, "it is ready").await.map(drop),
        }
    }
}

fn peers() -> Value {
    json!([{ "static": { "addresses": ["0123456789abcdef0123456789abcdef01234567@peer.example:26656"] } }])
}

fn tls() -> Value {
    json!({ "tls": { "secretName": TLS_SECRET } })
}

async fn create_certificate(fixture: &Fixture<'_>) -> Result<(), Error> {
    let dns = vec![object::service_host(NODE, &fixture.ns), object::pod_host(NODE, &fixture.ns)];
    let ca = CertificateAuthority::new("sidecars")?;
    let identity = ca.issue_server(NODE, &ServerNames { dns, ..ServerNames::default() })?;
    let data = BTreeMap::from([
        ("tls.crt".to_owned(), ByteString(identity.certificate.into_bytes())),
        ("tls.key".to_owned(), ByteString(identity.key.into_bytes())),
        ("ca.crt".to_owned(), ByteString(ca.pem().as_bytes().to_vec())),
    ]);
    let secret = Secret {
        metadata: ObjectMeta { name: Some(TLS_SECRET.into()), ..ObjectMeta::default() },
        type_: Some("kubernetes.io/tls".into()),
        data: Some(data),
        ..Secret::default()
    };
    fixture.api().create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn delete(fixture: &Fixture<'_>, propagation: PropagationPolicy) -> Result<(), Error> {
    let params = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
    fixture.nodes().delete(NODE, &params).await?;
    Ok(())
}

/// Returns the remaining objects of the node.
async fn remaining(fixture: &Fixture<'_>) -> Result<Vec<String>, Error> {
    let mut remaining = names::<api::SeiNode>(fixture).await?;
    remaining.extend(names::<StatefulSet>(fixture).await?);
    remaining.extend(names::<Pod>(fixture).await?);
    remaining.extend(names::<Service>(fixture).await?);
    remaining.extend(names::<NetworkPolicy>(fixture).await?);
    remaining.extend(names::<PodDisruptionBudget>(fixture).await?);
    remaining.extend(names::<PersistentVolumeClaim>(fixture).await?);
    let is_root_ca = |name: &String| name.contains("kube-root-ca");
    remaining.extend(names::<ConfigMap>(fixture).await?.into_iter().filter(|name| !is_root_ca(name)));
    Ok(remaining)
}

async fn names<K>(fixture: &Fixture<'_>) -> Result<Vec<String>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let all = fixture.api::<K>().list(&ListParams::default()).await?;
    Ok(all.iter().map(|object| format!("{} {}", K::kind(&()), object.name_any())).collect())
}
