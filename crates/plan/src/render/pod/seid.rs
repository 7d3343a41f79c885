//! The containers of seid. The image has a shell and little else.

use api::SeiNode;
use api::names::{container, data_key, path, port, volume};
use api::sei_node::{ObservedKeys, Scheme};
use api::sidecar_wire;
use k8s_openapi::api::core::v1::{Container, EnvVar, ResourceRequirements, VolumeMount};

use super::parts::{env, file, mount, port as container_port};
use super::probe::{self, Rhythm};
use super::security;
use crate::node::{Kind, sidecar_port};
use crate::platform::Platform;
use crate::render::service::SEID_PORTS;
use crate::render::{Refusal, resources};

/// Makes the node's home, once: a second time would throw its keys away. The chain is an argument, never a part of the script.
const INIT: &str = include_str!("init.sh");

/// Runs seid. Who ends the pod ends seid, which writes down what it has: job control is on, since a shell without it has what runs
/// in the background ignore interrupts. Why seid ends it says on stderr, and behind that it prints its flags, or where it was:
/// more than kubelet keeps. So the line that says why is put where kubelet looks for it. The shell itself, which tells of jobs, is silent.
const RUN: &str = include_str!("run.sh");

/// Ends as seid has ended.
const START: &str = include_str!("start.sh");

/// At its height seid interrupts and terminates itself at once: it dies of either signal, now of one and now of the other. One that
/// was ended from outside is never a success: the height was not reached.
const BOOTSTRAP: &str = include_str!("bootstrap.sh");

/// Waits until the sidecar lets seid start. There is neither curl nor wget; a sidecar that does not answer is asked again.
const GATE: &str = include_str!("gate.sh");

/// Where kubelet looks for why a container has ended.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Makes the node's home.
pub(super) fn init(node: &SeiNode, image: &str) -> Container {
    let args = vec![container::SEID_INIT.into(), node.spec.chain_id.clone()];
    Container {
        name: container::SEID_INIT.into(),
        image: Some(image.into()),
        command: Some(shell(INIT.into())),
        args: Some(args),
        env: Some(vec![home()]),
        volume_mounts: Some(vec![mount(volume::DATA, path::DATA)]),
        security_context: Some(security::non_root()),
        ..Container::default()
    }
}

/// The node's own seid. It has no liveness probe: one that is halted, or catches up for days, is not helped by a restart.
pub(super) fn of_the_node(
    node: &SeiNode,
    kind: Kind<'_>,
    platform: &Platform,
    scheme: Scheme,
) -> Result<Container, Refusal> {
    let mut seid = gated(node, &node.spec.image, START, &[], kind, platform)?;
    seid.volume_mounts.get_or_insert_default().extend(keys(&kind.keys()));
    seid.ports = Some(SEID_PORTS.into_iter().map(container_port).collect());
    // Five days: a snapshot of terabytes is fetched before the sidecar lets seid start.
    seid.startup_probe = Some(probe::of_sidecar(
        sidecar_wire::path::HEALTHZ,
        scheme,
        Rhythm { delay: Some(5), period: 5, failures: 86400 },
    ));
    let mut readiness =
        probe::http("/lag_status", port::RPC, Rhythm { delay: Some(30), period: 10, failures: 3 });
    readiness.timeout_seconds = Some(5);
    seid.readiness_probe = Some(readiness);
    Ok(seid)
}

/// The seid that stops at a height.
pub(super) fn of_the_bootstrap(
    node: &SeiNode,
    kind: Kind<'_>,
    platform: &Platform,
    image: &str,
    height: i64,
) -> Result<Container, Refusal> {
    gated(node, image, BOOTSTRAP, &["--halt-height".into(), height.to_string()], kind, platform)
}

/// A seid that waits for the sidecar, on whatever port that listens.
fn gated(
    node: &SeiNode,
    image: &str,
    then: &str,
    args: &[String],
    kind: Kind<'_>,
    platform: &Platform,
) -> Result<Container, Refusal> {
    let asked = kind.resources(platform);
    let requests = [("cpu", asked.cpu.as_str()), ("memory", asked.memory.as_str())];
    let ask_at = [sidecar_port(node).to_string(), sidecar_wire::path::HEALTHZ.into()];
    let name = container::SEID.to_owned();
    Ok(Container {
        name: name.clone(),
        image: Some(image.into()),
        command: Some(shell(format!("{GATE}{RUN}{then}"))),
        args: Some([name].into_iter().chain(ask_at).chain(args.iter().cloned()).collect()),
        env: Some(vec![
            home(),
            env("TMPDIR", format!("{}/tmp", path::DATA)),
            env("TERMINATION_LOG", TERMINATION_LOG),
        ]),
        termination_message_path: Some(TERMINATION_LOG.into()),
        // Its log goes with it: what it said last is kept for the status.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(vec![mount(volume::DATA, path::DATA)]),
        resources: Some(ResourceRequirements {
            requests: Some(resources::list("seid", requests)?),
            ..ResourceRequirements::default()
        }),
        security_context: Some(security::non_root()),
        ..Container::default()
    })
}

fn keys(keys: &ObservedKeys) -> impl Iterator<Item = VolumeMount> {
    let mounted = |there: bool, volume, path, name| there.then(|| file(volume, path, name));
    let signing_key =
        mounted(keys.signing_key.is_some(), volume::SIGNING_KEY, path::SIGNING_KEY, data_key::SIGNING_KEY);
    let node_key = mounted(keys.node_key.is_some(), volume::NODE_KEY, path::NODE_KEY, data_key::NODE_KEY);
    signing_key.into_iter().chain(node_key)
}

fn shell(script: String) -> Vec<String> {
    vec!["/bin/bash".into(), "-c".into(), script]
}

fn home() -> EnvVar {
    env("HOME", path::DATA)
}
