//! Checks on rendered pods: Secrets, tokens and shared directories reach only the containers that need them. They inspect the
//! result, so that a mistake anywhere in the rendering, or one Secret for two purposes, ends in an error and not in a leak.

use api::names::{container, volume};
use api::sei_node::ObservedKeys;
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PodSpec, Volume};

use crate::render::RenderError;

/// The containers that may mount each volume which is a channel between containers, an identity, or a record that the sidecar trusts.
const VOLUMES: [(&str, &[&str]); 4] = [
    (volume::SIDECAR_TMP, &[container::SIDECAR]),
    (volume::SIDECAR_SOCKET, &[container::SIDECAR, container::PROXY]),
    (volume::SEID_CONTROL, &[container::SIDECAR, container::SEID]),
    (volume::PROXY_TOKEN, &[container::PROXY]),
];

/// Fails if a container of a pod has access to something that another one needs, or that none needs. `certificate` and
/// `credentials` are the Secrets with the certificate of the proxy, and with the credentials of the object store.
pub(super) fn check(
    pod: &PodSpec,
    keys: &ObservedKeys,
    certificate: Option<&str>,
    credentials: Option<&str>,
) -> Result<(), RenderError> {
    let keyring = keys.operator_keyring.as_ref();
    let secrets = [
        (keys.signing_key.as_deref(), Some(container::SEID)),
        (keys.node_key.as_deref(), Some(container::SEID)),
        (certificate, Some(container::PROXY)),
        (credentials, Some(container::SIDECAR)),
        // Nothing signs with the keys of the operator account.
        (keyring.map(|keyring| keyring.secret_name.as_str()), None),
        (keyring.map(|keyring| keyring.passphrase_secret_ref.secret_name.as_str()), None),
    ];
    for (secret, only) in secrets {
        secret.map_or(Ok(()), |secret| check_secret(pod, secret, only))?;
    }
    VOLUMES.iter().try_for_each(|(volume, allowed)| check_volume(pod, volume, allowed))?;
    check_tokens(pod)
}

/// Fails if a container other than `only` has access to a Secret.
fn check_secret(pod: &PodSpec, secret: &str, only: Option<&str>) -> Result<(), RenderError> {
    for container in containers(pod).filter(|container| Some(container.name.as_str()) != only) {
        if let Some(field) = access_field(pod, container, secret) {
            let name = &container.name;
            let who = only.map_or_else(|| "no container".into(), |only| format!("only {only}"));
            return Err(RenderError(format!(
                "container {name} would have access to Secret {secret} through {field}: {who} may"
            )));
        }
    }
    Ok(())
}

/// Fails if a container other than these mounts a volume.
fn check_volume(pod: &PodSpec, volume: &str, allowed: &[&str]) -> Result<(), RenderError> {
    let mut others = containers(pod).filter(|container| !allowed.contains(&container.name.as_str()));
    match others.find(|container| has_mount(container, volume)) {
        None => Ok(()),
        Some(container) => Err(RenderError(format!(
            "container {} would mount volume {volume}: only {} may",
            container.name,
            allowed.join(" and ")
        ))),
    }
}

/// Fails if a container other than the proxy has a token of the ServiceAccount.
fn check_tokens(pod: &PodSpec) -> Result<(), RenderError> {
    if pod.automount_service_account_token != Some(false) {
        return Err(RenderError("the ServiceAccount token would be mounted into every container".into()));
    }
    let has_token = |volume: &&Volume| {
        let sources = volume.projected.iter().filter_map(|projected| projected.sources.as_deref()).flatten();
        sources.into_iter().any(|source| source.service_account_token.is_some())
    };
    volumes(pod).filter(has_token).try_for_each(|volume| check_volume(pod, &volume.name, &[container::PROXY]))
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
    let mounted = volumes(pod)
        .filter(|volume| has_mount(container, &volume.name))
        .any(|volume| has_secret(volume, secret));
    mounted.then_some("volumes").or_else(|| env_field(container, secret))
}

fn has_mount(container: &Container, volume: &str) -> bool {
    container.volume_mounts.iter().flatten().any(|mount| mount.name == volume)
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
