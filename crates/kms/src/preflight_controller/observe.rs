//! Reads the observed state of one reconcile.

use std::collections::BTreeMap;

use api::names::kms::preflight as names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use plan::kms::config_hash::{self, Values, fingerprint};
use plan::kms::plugin::{InvalidKmsConfig, ObjectKind, RequiredObject, parse_kms_spec};
use plan::kms::preflight::{PreflightPodConfig, RequestedCheck, build_candidate, schedulable_nodes};
use plan::kms::secret_layout::EncryptionSecret;
use serde_json::Value;

use super::args::Settings;
use super::operator_resource::{NAME, api_servers};
use super::reconcile::Error;

/// The observed state.
pub(super) struct Observed {
    /// The operator resource.
    pub(super) operator: DynamicObject,
    /// Pods of the current check.
    pub(super) pods: Vec<Pod>,
    /// Secret of the current check.
    pub(super) secret: Option<Secret>,
    /// The configuration to check, and the content of its Secret; `None` if no check is requested.
    pub(super) candidate: Candidate,
}

/// Reads the observed state. A configuration that cannot be checked is returned beside it: the rest of the state is still valid.
pub(super) async fn observe(
    client: &Client,
    settings: &Settings,
) -> Result<(Observed, Option<InvalidKmsConfig>), Error> {
    let operator =
        settings.kind.api(client).get(NAME).await.map_err(Error::reading("the operator resource"))?;
    let namespace = &settings.pod_config.namespace;
    let label = format!("{}={}", names::APP_LABEL, names::APP);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(&label)).await.map_err(Error::reading("pods"))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(names::SECRET).await.map_err(Error::reading("the check Secret"))?;
    // Pods of other controllers may carry the same label; they must not be deleted.
    let pods = pods.items.into_iter().filter(is_check_pod).collect();
    let mut observed = Observed { operator, pods, secret, candidate: None };
    match find_candidate(client, settings, &observed).await? {
        Ok(candidate) => {
            observed.candidate = candidate;
            Ok((observed, None))
        }
        Err(refusal) => Ok((observed, Some(refusal))),
    }
}

fn is_check_pod(pod: &Pod) -> bool {
    let suffix = pod.metadata.name.as_deref().and_then(|name| name.strip_prefix(names::NAME));
    suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
}

/// Returns the nodes to check; none if the check runs on any node.
pub(super) async fn list_nodes(
    client: &Client,
    pod_config: &PreflightPodConfig,
) -> Result<Vec<String>, Error> {
    let Some(label) = &pod_config.node_label else { return Ok(Vec::new()) };
    let api: Api<Node> = Api::all(client.clone());
    let nodes = api.list(&ListParams::default().labels(label)).await.map_err(Error::reading("nodes"))?;
    Ok(schedulable_nodes(&nodes.items))
}

type Candidate = Option<(RequestedCheck, EncryptionSecret)>;

async fn find_candidate(
    client: &Client,
    settings: &Settings,
    observed: &Observed,
) -> Result<Result<Candidate, InvalidKmsConfig>, Error> {
    if observed.operator.data["spec"]["managementState"] == "Unmanaged" {
        return Ok(Ok(None));
    }
    let Some(requested) = settings.kind.requested_hash(&observed.operator) else { return Ok(Ok(None)) };
    let config = api_servers(client).get_opt(NAME).await.map_err(Error::reading("APIServer cluster"))?;
    let encryption = config.map(|config| config.data["spec"]["encryption"].clone()).unwrap_or_default();
    if encryption["type"] != "KMS" {
        return Ok(Ok(None));
    }
    let kms = &encryption["kms"];
    let values = match read_references(client, settings, kms).await? {
        Ok(values) => values,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let current = read_current(client, settings).await?;
    Ok(compute_candidate(&requested, kms, &values, current, observed))
}

fn compute_candidate(
    requested: &str,
    kms: &Value,
    values: &[(RequiredObject, Values)],
    current: Option<Secret>,
    observed: &Observed,
) -> Result<Candidate, InvalidKmsConfig> {
    let find = |need: &RequiredObject| {
        values.iter().find(|(known, _)| known == need).and_then(|(_, values)| values.clone())
    };
    let (kind, config) = parse_kms_spec(kms, "APIServer cluster")?;
    let hash = config_hash::compute(kind, &config, find)?;
    if hash != requested {
        // The requester has not observed the current configuration yet and will request again.
        return Ok(None);
    }
    let current = match current {
        Some(secret) => Some(EncryptionSecret::read(&secret.data.unwrap_or_default())?),
        None => None,
    };
    let content = build_candidate(kms, current.as_ref(), find)?;
    let key = observed.secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(names::FINGERPRINT_KEY));
    let fingerprint = match key {
        Some(ByteString(key)) => Some(fingerprint_content(key, &content)),
        // Pods whose Secret is gone belong to an unknown configuration.
        None => (!observed.pods.is_empty()).then(String::new),
    };
    Ok(Some((RequestedCheck { hash, fingerprint }, content)))
}

/// Returns the keyed fingerprint of everything that is checked.
pub(super) fn fingerprint_content(key: &[u8], content: &EncryptionSecret) -> String {
    let data = content.write();
    fingerprint(key, data.iter().flat_map(|(name, ByteString(value))| [name.as_bytes(), value.as_slice()]))
}

/// Reads the Secrets and ConfigMaps that a configuration refers to.
async fn read_references(
    client: &Client,
    settings: &Settings,
    kms: &Value,
) -> Result<Result<Vec<(RequiredObject, Values)>, InvalidKmsConfig>, Error> {
    let needs =
        parse_kms_spec(kms, "APIServer cluster").and_then(|(kind, config)| kind.required_objects(&config));
    let needs = match needs {
        Ok(needs) => needs,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut all = Vec::new();
    for need in needs {
        let values = match need.source {
            ObjectKind::Secret => {
                let api: Api<Secret> = Api::namespaced(client.clone(), &settings.config_namespace);
                let found =
                    api.get_opt(&need.name).await.map_err(Error::reading("the credentials Secret"))?;
                found.map(|secret| bytes(secret.data.unwrap_or_default()))
            }
            ObjectKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client.clone(), &settings.config_namespace);
                let found =
                    api.get_opt(&need.name).await.map_err(Error::reading("the CA bundle ConfigMap"))?;
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

/// Reads the encryption configuration in use.
async fn read_current(client: &Client, settings: &Settings) -> Result<Option<Secret>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &settings.pod_config.namespace);
    let secret = api.get_opt(&settings.encryption_config_secret).await;
    secret.map_err(Error::reading("the encryption configuration in use"))
}
