//! The Secrets, ConfigMaps and claims that pods depend on, from the watch caches. Nothing here sends a request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::names::{container, data_key, volume};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, KeyToPath, PersistentVolumeClaim, Pod, PodSpec, Secret, SecretKeySelector, Volume,
};

use super::script::ContainerFailure;
use crate::cluster::pki::Identity;
use crate::error::{Error, Result};

/// Namespace and name.
pub(super) type Key = (String, String);

/// The watched objects.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) secrets: HashMap<Key, Arc<Secret>>,
    pub(super) config_maps: HashMap<Key, Arc<ConfigMap>>,
    pub(super) claims: HashMap<Key, Arc<PersistentVolumeClaim>>,
}

impl Objects {
    /// Returns why the scheduler would not place the pod: a missing or unbound claim.
    pub(super) fn unschedulable(&self, namespace: &str, pod: &Pod) -> Option<String> {
        volumes(pod).find_map(|volume| {
            let claim = &volume.persistent_volume_claim.as_ref()?.claim_name;
            match self.claims.get(&key(namespace, claim)) {
                None => Some(format!("persistentvolumeclaim \"{claim}\" not found")),
                Some(claim) if !is_bound(claim) => {
                    Some("pod has unbound immediate PersistentVolumeClaims".into())
                }
                Some(_) => None,
            }
        })
    }

    /// Returns why a volume of the pod cannot be mounted.
    pub(super) fn unmountable(&self, namespace: &str, pod: &Pod) -> Option<String> {
        volumes(pod).find_map(|volume| {
            let why = self.unreadable(namespace, volume)?;
            Some(format!("MountVolume.SetUp failed for volume \"{}\" : {why}", volume.name))
        })
    }

    fn unreadable(&self, namespace: &str, volume: &Volume) -> Option<String> {
        if let Some(source) = volume.secret.as_ref().filter(|source| source.optional != Some(true)) {
            let name = source.secret_name.as_deref().unwrap_or_default();
            let Some(secret) = self.secrets.get(&key(namespace, name)) else {
                return Some(format!("secret \"{name}\" not found"));
            };
            let has = |key: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
            return missing_key(source.items.as_deref(), has);
        }
        let source = volume.config_map.as_ref().filter(|source| source.optional != Some(true))?;
        let Some(config_map) = self.config_maps.get(&key(namespace, &source.name)) else {
            return Some(format!("configmap \"{}\" not found", source.name));
        };
        let has = |key: &str| config_map.data.as_ref().is_some_and(|data| data.contains_key(key));
        missing_key(source.items.as_deref(), has)
    }

    /// Returns the failure caused by a missing Secret or key in the environment of the container.
    pub(super) fn config_error(&self, namespace: &str, container: &Container) -> Option<ContainerFailure> {
        let mut sources = secret_keys(container).filter(|source| source.optional != Some(true));
        let why = sources.find_map(|source| match self.secrets.get(&key(namespace, &source.name)) {
            None => Some(format!("secret \"{}\" not found", source.name)),
            Some(secret) if !secret.data.as_ref().is_some_and(|data| data.contains_key(&source.key)) => {
                Some(format!("couldn't find key {} in Secret {namespace}/{}", source.key, source.name))
            }
            Some(_) => None,
        });
        why.map(ContainerFailure::CreateContainerConfigError)
    }

    /// Returns the serving certificate of the pod's proxy, or `None` for plain HTTP.
    pub(super) fn certificate(&self, namespace: &str, pod: &Pod) -> Result<Option<Identity>> {
        if !serves_tls(pod) {
            return Ok(None);
        }
        let refused = |why: String| Error::Other(format!("proxy certificate: {why}"));
        let name = volumes(pod)
            .find(|volume| volume.name == volume::SIDECAR_TLS)
            .and_then(|volume| volume.secret.as_ref()?.secret_name.as_deref())
            .ok_or_else(|| refused(format!("pod has no Secret volume {}", volume::SIDECAR_TLS)))?;
        let secret = self
            .secrets
            .get(&key(namespace, name))
            .ok_or_else(|| refused(format!("secret \"{name}\" not found")))?;
        let text = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            let bytes = bytes.ok_or_else(|| refused(format!("secret \"{name}\" has no key {key}")))?;
            String::from_utf8(bytes.0.clone()).map_err(|error| refused(error.to_string()))
        };
        Ok(Some(Identity { certificate: text(data_key::TLS_CERTIFICATE)?, key: text(data_key::TLS_KEY)? }))
    }
}

/// Returns the objects that a pod depends on: a change of one wakes the pod. The set is constant, because the
/// volumes and environment of a pod are immutable.
pub(super) fn dependencies(namespace: &str, pod: &Pod) -> HashSet<Dependency> {
    let by_volume = volumes(pod).filter_map(|volume| {
        let secret = volume.secret.as_ref().and_then(|source| source.secret_name.as_ref());
        let config_map = volume.config_map.as_ref().map(|source| &source.name);
        let claim = volume.persistent_volume_claim.as_ref().map(|source| &source.claim_name);
        let secret = secret.map(|name| (Kind::Secret, name));
        secret.or(config_map.map(|name| (Kind::ConfigMap, name))).or(claim.map(|name| (Kind::Claim, name)))
    });
    let by_environment = containers(pod).flat_map(secret_keys).map(|source| (Kind::Secret, &source.name));
    by_volume.chain(by_environment).map(|(kind, name)| (kind, key(namespace, name))).collect()
}

/// An object that a pod depends on.
pub(super) type Dependency = (Kind, Key);

/// Kinds of objects that pods depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Secret,
    ConfigMap,
    Claim,
}

/// Whether the claim is bound.
pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

pub(super) fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn serves_tls(pod: &Pod) -> bool {
    let proxy = containers(pod).find(|one| one.name == container::PROXY);
    let args = proxy.and_then(|proxy| proxy.args.as_deref()).unwrap_or_default();
    args.iter().any(|arg| arg.starts_with("--secure-listen-address"))
}

/// Returns the Secret keys that the environment of the container refers to.
fn secret_keys(container: &Container) -> impl Iterator<Item = &SecretKeySelector> {
    let sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    sources.filter_map(|source| source.secret_key_ref.as_ref())
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec: Option<&PodSpec> = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let main = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    init.iter().chain(main)
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

fn missing_key(items: Option<&[KeyToPath]>, has: impl Fn(&str) -> bool) -> Option<String> {
    let missing = items.unwrap_or_default().iter().find(|item| !has(&item.key))?;
    Some(format!("references non-existent key: {}", missing.key))
}
