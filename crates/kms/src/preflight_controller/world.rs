//! What is looked at in one pass.

use std::collections::BTreeMap;

use api::names::kms::preflight as names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use plan::kms::config_hash::{self, Values, fingerprint};
use plan::kms::plugin::{Need, Refusal, Source, of_kms};
use plan::kms::preflight::{Place, Wanted, candidate, usable};
use plan::kms::secret_layout::Content;
use serde_json::Value;

use super::args::Settings;
use super::pass::Error;
use super::resource::{NAME, api_servers};

/// What there is.
pub(super) struct World {
    /// The operator's resource.
    pub(super) operator: DynamicObject,
    /// Pods of the check.
    pub(super) pods: Vec<Pod>,
    /// The Secret of the check.
    pub(super) secret: Option<Secret>,
    /// What is to be checked, and with which content; nothing if no check is required.
    pub(super) candidate: Option<(Wanted, Content)>,
}

/// Looks. A configuration that cannot be checked is an error of its own: everything else can still be seen.
pub(super) async fn observe(client: &Client, settings: &Settings) -> Result<(World, Option<Refusal>), Error> {
    let operator =
        settings.kind.api(client).get(NAME).await.map_err(Error::reading("the operator's resource"))?;
    let namespace = &settings.place.namespace;
    let label = format!("{}={}", names::APP_LABEL, names::APP);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(&label)).await.map_err(Error::reading("pods"))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(names::SECRET).await.map_err(Error::reading("the Secret of the check"))?;
    // A pod of that label that is not of this check is not ours to remove.
    let pods = pods.items.into_iter().filter(is_ours).collect();
    let mut world = World { operator, pods, secret, candidate: None };
    match wanted(client, settings, &world).await? {
        Ok(candidate) => {
            world.candidate = candidate;
            Ok((world, None))
        }
        Err(refusal) => Ok((world, Some(refusal))),
    }
}

fn is_ours(pod: &Pod) -> bool {
    let rest = pod.metadata.name.as_deref().and_then(|name| name.strip_prefix(names::NAME));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The nodes that a check runs on.
pub(super) async fn nodes(client: &Client, place: &Place) -> Result<Vec<String>, Error> {
    let Some(label) = &place.node_label else { return Ok(Vec::new()) };
    let api: Api<Node> = Api::all(client.clone());
    let found = api.list(&ListParams::default().labels(label)).await.map_err(Error::reading("nodes"))?;
    Ok(usable(&found.items))
}

type Candidate = Option<(Wanted, Content)>;

async fn wanted(
    client: &Client,
    settings: &Settings,
    world: &World,
) -> Result<Result<Candidate, Refusal>, Error> {
    if world.operator.data["spec"]["managementState"] == "Unmanaged" {
        return Ok(Ok(None));
    }
    let Some(asked) = settings.kind.asked(&world.operator) else { return Ok(Ok(None)) };
    let config = api_servers(client).get_opt(NAME).await.map_err(Error::reading("APIServer cluster"))?;
    let encryption = config.map(|config| config.data["spec"]["encryption"].clone()).unwrap_or_default();
    if encryption["type"] != "KMS" {
        return Ok(Ok(None));
    }
    let kms = &encryption["kms"];
    let values = match referenced(client, settings, kms).await? {
        Ok(values) => values,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let current = current(client, settings).await?;
    Ok(computed(&asked, kms, &values, current, world))
}

fn computed(
    asked: &str,
    kms: &Value,
    values: &[(Need, Values)],
    current: Option<Secret>,
    world: &World,
) -> Result<Candidate, Refusal> {
    let find =
        |need: &Need| values.iter().find(|(known, _)| known == need).and_then(|(_, values)| values.clone());
    let (kind, config) = of_kms(kms, "APIServer cluster")?;
    let hash = config_hash::of(kind, &config, find)?;
    if hash != asked {
        // Whoever asks has not seen the configuration of now: it will ask again.
        return Ok(None);
    }
    let current = match current {
        Some(secret) => Some(Content::read(&secret.data.unwrap_or_default())?),
        None => None,
    };
    let content = candidate(kms, current.as_ref(), find)?;
    let key = world.secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(names::FINGERPRINT_KEY));
    let fingerprint = match key {
        Some(ByteString(key)) => Some(fingerprint_of(key, &content)),
        // Pods without the Secret that they were made with are those of an unknown configuration.
        None => (!world.pods.is_empty()).then(String::new),
    };
    Ok(Some((Wanted { hash, fingerprint }, content)))
}

/// A fingerprint of everything that is checked.
pub(super) fn fingerprint_of(key: &[u8], content: &Content) -> String {
    let data = content.write();
    fingerprint(key, data.iter().flat_map(|(name, ByteString(value))| [name.as_bytes(), value.as_slice()]))
}

/// The values of objects that a configuration refers to.
async fn referenced(
    client: &Client,
    settings: &Settings,
    kms: &Value,
) -> Result<Result<Vec<(Need, Values)>, Refusal>, Error> {
    let needs = of_kms(kms, "APIServer cluster").and_then(|(kind, config)| kind.needs(&config));
    let needs = match needs {
        Ok(needs) => needs,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut all = Vec::new();
    for need in needs {
        let values = match need.source {
            Source::Secret => {
                let api: Api<Secret> = Api::namespaced(client.clone(), &settings.config_namespace);
                let found =
                    api.get_opt(&need.name).await.map_err(Error::reading("the Secret of credentials"))?;
                found.map(|secret| bytes(secret.data.unwrap_or_default()))
            }
            Source::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client.clone(), &settings.config_namespace);
                let found = api
                    .get_opt(&need.name)
                    .await
                    .map_err(Error::reading("the ConfigMap of the authority"))?;
                found.map(|map| {
                    let text = map.data.unwrap_or_default();
                    text.into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
                })
            }
        };
        all.push((need, values));
    }
    Ok(Ok(all))
}

fn bytes(data: BTreeMap<String, ByteString>) -> BTreeMap<String, Vec<u8>> {
    data.into_iter().map(|(key, ByteString(value))| (key, value)).collect()
}

/// The encryption configuration that is in use.
async fn current(client: &Client, settings: &Settings) -> Result<Option<Secret>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &settings.place.namespace);
    let found = api.get_opt(&settings.encryption_config_secret).await;
    found.map_err(Error::reading("the encryption configuration in use"))
}
