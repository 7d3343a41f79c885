//! Checks on rendered pods: Secrets with keys reach only the container that needs them. They inspect the result, so
//! that a mistake anywhere in the rendering ends in an error and not in a leaked key.

use api::names::container;
use api::sei_node::{KeyringSecret, ObservedKeys};
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PodSpec, Volume};

use crate::render::RenderError;

/// Fails if a container other than the sidecar has access to the keys of the operator account or their passphrase.
pub(super) fn check_keyring_access(pod: &PodSpec, keyring: &KeyringSecret) -> Result<(), RenderError> {
    for secret in [&keyring.secret_name, &keyring.passphrase_secret_ref.secret_name] {
        for container in containers(pod).filter(|container| container.name != container::SIDECAR) {
            if let Some(field) = access_field(pod, container, secret) {
                let name = &container.name;
                return Err(RenderError(format!(
                    "container {name} would have access to Secret {secret} through {field}: only the sidecar may"
                )));
            }
        }
    }
    Ok(())
}

/// Fails if a bootstrap pod has access to a key that a validator signs with, or has such a volume without mounting it.
/// Two pods that sign with the same key are slashed, and the validator may be running elsewhere.
pub(super) fn check_no_signing_keys(pod: &PodSpec, keys: &ObservedKeys) -> Result<(), RenderError> {
    let keyring = keys.operator_keyring.as_ref();
    let secrets = [
        keys.signing_key.as_ref(),
        keyring.map(|keyring| &keyring.secret_name),
        keyring.map(|keyring| &keyring.passphrase_secret_ref.secret_name),
    ];
    for secret in secrets.into_iter().flatten() {
        let volume = volumes(pod).any(|volume| has_secret(volume, secret)).then_some("volumes");
        let field = volume.or_else(|| containers(pod).find_map(|container| env_field(container, secret)));
        if let Some(field) = field {
            return Err(RenderError(format!(
                "the bootstrap pod would have access to Secret {secret} through {field}"
            )));
        }
    }
    Ok(())
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

fn volumes(pod: &PodSpec) -> impl Iterator<Item = &Volume> {
    pod.volumes.iter().flatten()
}

/// Returns the field through which a container has access to a Secret, if any.
fn access_field(pod: &PodSpec, container: &Container, secret: &str) -> Option<&'static str> {
    let mounts =
        |volume: &&Volume| container.volume_mounts.iter().flatten().any(|mount| mount.name == volume.name);
    let mounted = volumes(pod).filter(mounts).any(|volume| has_secret(volume, secret));
    mounted.then_some("volumes").or_else(|| env_field(container, secret))
}

fn has_secret(volume: &Volume, secret: &str) -> bool {
    let whole = volume.secret.as_ref().and_then(|source| source.secret_name.as_deref());
    let projected = volume.projected.iter().filter_map(|projected| projected.sources.as_deref()).flatten();
    let mut projections = projected.filter_map(|source| source.secret.as_ref());
    whole == Some(secret) || projections.any(|source| source.name == secret)
}

fn env_field(container: &Container, secret: &str) -> Option<&'static str> {
    let is_key_of = |variable: &EnvVar| {
        let source = variable.value_from.as_ref().and_then(|source| source.secret_key_ref.as_ref());
        source.is_some_and(|source| source.name == secret)
    };
    let is_all_of =
        |source: &EnvFromSource| source.secret_ref.as_ref().is_some_and(|source| source.name == secret);
    let by_env = container.env.iter().flatten().any(is_key_of).then_some("env");
    by_env.or_else(|| container.env_from.iter().flatten().any(is_all_of).then_some("envFrom"))
}

#[cfg(test)]
mod tests;
