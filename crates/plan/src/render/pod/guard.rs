//! Guards over pods that were put together: keys reach only the container that needs them. They look at the result, whatever
//! made it, so that a mistake anywhere in the making ends in a refusal and not in a leaked key.

use api::names::container;
use api::sei_node::{KeyringSecret, ObservedKeys};
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PodSpec, Volume};

use crate::render::Refusal;

/// Refuses a pod in which any container but the sidecar gets at the operating account's keys or their passphrase.
pub(super) fn keyring_stays_with_the_sidecar(pod: &PodSpec, keyring: &KeyringSecret) -> Result<(), Refusal> {
    for secret in [&keyring.secret_name, &keyring.passphrase_secret_ref.secret_name] {
        for container in containers(pod).filter(|container| container.name != container::SIDECAR) {
            if let Some(way) = reaches(pod, container, secret) {
                let name = &container.name;
                return Err(Refusal(format!(
                    "container {name} would get at Secret {secret} by its {way}: only the sidecar may"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a bootstrap pod that has anything of what a validator signs with. Two pods that sign with one key are slashed, and
/// this one is made from another image, beside a node that may run elsewhere. It may not even have a volume that nobody mounts.
pub(super) fn cannot_sign(pod: &PodSpec, keys: &ObservedKeys) -> Result<(), Refusal> {
    let keyring = keys.operator_keyring.as_ref();
    let secrets = [
        keys.signing_key.as_ref(),
        keyring.map(|keyring| &keyring.secret_name),
        keyring.map(|keyring| &keyring.passphrase_secret_ref.secret_name),
    ];
    for secret in secrets.into_iter().flatten() {
        let volume = volumes(pod).any(|volume| holds(volume, secret)).then_some("volumes");
        let way = volume.or_else(|| containers(pod).find_map(|container| variables(container, secret)));
        if let Some(way) = way {
            return Err(Refusal(format!("the bootstrap pod would get at Secret {secret} by its {way}")));
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

/// The way in which a container gets at a Secret, if any.
fn reaches(pod: &PodSpec, container: &Container, secret: &str) -> Option<&'static str> {
    let mounts =
        |volume: &&Volume| container.volume_mounts.iter().flatten().any(|mount| mount.name == volume.name);
    let mounted = volumes(pod).filter(mounts).any(|volume| holds(volume, secret));
    mounted.then_some("volumes").or_else(|| variables(container, secret))
}

fn holds(volume: &Volume, secret: &str) -> bool {
    let whole = volume.secret.as_ref().and_then(|source| source.secret_name.as_deref());
    let projected = volume.projected.iter().filter_map(|projected| projected.sources.as_deref()).flatten();
    let mut parts = projected.filter_map(|source| source.secret.as_ref());
    whole == Some(secret) || parts.any(|part| part.name == secret)
}

fn variables(container: &Container, secret: &str) -> Option<&'static str> {
    let one = |variable: &EnvVar| {
        let source = variable.value_from.as_ref().and_then(|source| source.secret_key_ref.as_ref());
        source.is_some_and(|source| source.name == secret)
    };
    let all = |source: &EnvFromSource| source.secret_ref.as_ref().is_some_and(|source| source.name == secret);
    let by_one = container.env.iter().flatten().any(one).then_some("env");
    by_one.or_else(|| container.env_from.iter().flatten().any(all).then_some("envFrom"))
}

#[cfg(test)]
mod tests;
