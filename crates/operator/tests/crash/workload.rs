//! What users do to a node, and when that has had its effect.

use std::collections::BTreeMap;

use api::names::{finalizer, object};
use k8s_openapi::ByteString;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::Error;
use testbed::cluster::pki::{Authority, ServerNames};
use testbed::harness::wait;

use crate::ground::{Ground, OTHER_IMAGE, SOON, is_ready};

/// The node that all of it is about.
pub const NODE: &str = "full";

const TLS_SECRET: &str = "certificate";

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Creates a node.
    Init,
    /// Gives it another image and other peers.
    Update,
    /// Has its sidecar served by TLS.
    TlsOn,
    /// Has its sidecar served in the clear again.
    TlsOff,
    /// Creates a node that starts from a snapshot, by a bootstrap pod.
    Bootstrap,
    /// Deletes it, and what it owns goes later. It has the finalizer of the operator before us.
    DeleteBackground,
    /// Deletes it after all that it owns. It has the finalizer of the operator before us.
    DeleteForeground,
}

impl Workload {
    /// Everything that must be there before the user acts.
    pub async fn prepare(self, ground: &Ground<'_>) -> Result<(), Error> {
        match self {
            Self::Init | Self::Bootstrap => return Ok(()),
            Self::TlsOn => make_certificate(ground).await?,
            Self::TlsOff => {
                make_certificate(ground).await?;
                ground.running(NODE, |node| node["spec"]["sidecar"] = tls()).await?;
                return Ok(());
            }
            Self::Update => {}
            Self::DeleteBackground | Self::DeleteForeground => {
                let kept = |node: &mut Value| node["metadata"]["finalizers"] = json!([finalizer::NODE]);
                ground.running(NODE, kept).await?;
                return Ok(());
            }
        }
        ground.running(NODE, |_| {}).await.map(drop)
    }

    /// The user acts.
    pub async fn begin(self, ground: &Ground<'_>) -> Result<(), Error> {
        match self {
            Self::Init => ground.create(NODE, |node| node["spec"]["peers"] = peers()).await.map(drop),
            Self::Bootstrap => {
                let snapshot = json!({ "s3": { "targetHeight": 1000 }, "bootstrapImage": OTHER_IMAGE });
                ground.create(NODE, |node| node["spec"]["fullNode"]["snapshot"] = snapshot).await.map(drop)
            }
            Self::Update => {
                let spec = json!({ "spec": { "image": OTHER_IMAGE, "peers": peers() } });
                ground.edit(NODE, spec).await.map(drop)
            }
            Self::TlsOn => ground.edit(NODE, json!({ "spec": { "sidecar": tls() } })).await.map(drop),
            Self::TlsOff => {
                ground.edit(NODE, json!({ "spec": { "sidecar": { "tls": null } } })).await.map(drop)
            }
            Self::DeleteBackground => delete(ground, PropagationPolicy::Background).await,
            Self::DeleteForeground => delete(ground, PropagationPolicy::Foreground).await,
        }
    }

    /// Waits until it has had its effect.
    pub async fn end(self, ground: &Ground<'_>) -> Result<(), Error> {
        match self {
            Self::DeleteBackground | Self::DeleteForeground => {
                wait::until("nothing is left of the node", SOON, || async {
                    let left = left(ground).await.map_err(|error| error.to_string())?;
                    if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
                })
                .await
            }
            _ => ground.until(NODE, "it is as wanted", is_ready).await.map(drop),
        }
    }
}

fn peers() -> Value {
    json!([{ "static": { "addresses": ["abc@peer.example:26656"] } }])
}

fn tls() -> Value {
    json!({ "tls": { "secretName": TLS_SECRET } })
}

async fn make_certificate(ground: &Ground<'_>) -> Result<(), Error> {
    let dns = vec![object::service_host(NODE, &ground.ns), object::pod_host(NODE, &ground.ns)];
    let authority = Authority::new("sidecars")?;
    let identity = authority.server(NODE, &ServerNames { dns, ..ServerNames::default() })?;
    let data = BTreeMap::from([
        ("tls.crt".to_owned(), ByteString(identity.certificate.into_bytes())),
        ("tls.key".to_owned(), ByteString(identity.key.into_bytes())),
        ("ca.crt".to_owned(), ByteString(authority.pem().as_bytes().to_vec())),
    ]);
    let secret = Secret {
        metadata: ObjectMeta { name: Some(TLS_SECRET.into()), ..ObjectMeta::default() },
        type_: Some("kubernetes.io/tls".into()),
        data: Some(data),
        ..Secret::default()
    };
    ground.api().create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn delete(ground: &Ground<'_>, how: PropagationPolicy) -> Result<(), Error> {
    let how = DeleteParams { propagation_policy: Some(how), ..DeleteParams::default() };
    ground.nodes().delete(NODE, &how).await?;
    Ok(())
}

/// What is left of the node.
async fn left(ground: &Ground<'_>) -> Result<Vec<String>, Error> {
    let mut left = names::<api::SeiNode>(ground).await?;
    left.extend(names::<StatefulSet>(ground).await?);
    left.extend(names::<Pod>(ground).await?);
    left.extend(names::<Service>(ground).await?);
    left.extend(names::<NetworkPolicy>(ground).await?);
    left.extend(names::<PersistentVolumeClaim>(ground).await?);
    let published = |name: &String| name.contains("kube-root-ca");
    left.extend(names::<ConfigMap>(ground).await?.into_iter().filter(|name| !published(name)));
    Ok(left)
}

async fn names<K>(ground: &Ground<'_>) -> Result<Vec<String>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let all = ground.api::<K>().list(&ListParams::default()).await?;
    Ok(all.iter().map(|object| format!("{} {}", K::kind(&()), object.name_any())).collect())
}
