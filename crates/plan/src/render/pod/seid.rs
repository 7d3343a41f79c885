//! The containers of seid. Its image has a shell and little else.

use api::SeiNode;
use api::names::{container, data_key, env, path, port, volume};
use api::sei_node::{ObservedKeys, Scheme};
use api::sidecar_wire;
use k8s_openapi::api::core::v1::{Container, EnvVar, ResourceRequirements, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::builders::{env as variable, file, mount, port as container_port};
use super::probe::{self, Timing};
use super::security;
use crate::node::{NodeKind, seid_resources, sidecar_isolation, sidecar_port};
use crate::platform::{Platform, SidecarIsolation};
use crate::render::service::SEID_PORTS;
use crate::render::{RenderError, resources};

/// Initializes the home directory, once: a second time would overwrite its keys. The chain id is an argument and never
/// part of the script.
const INIT: &str = include_str!("init.sh");

/// The control directory, through which the sidecar of an isolated pod signals seid. A background process polls the request while
/// the shell waits for seid, since a shell has no wait with a timeout. It starts before seid: a shell that forks may forget the status
/// of a process that has exited. A request is recorded before it is executed, so that no later container executes it again. While
/// there is no seid it is acknowledged, but only before the sidecar is asked whether seid may start: after that, seid may be starting,
/// and gets the signal. The files are read up to a limit and not trusted, since several containers write them.
const CONTROL: &str = include_str!("control.sh");

/// Runs seid and forwards signals to it, so that it flushes its state on shutdown. Job control is on: without it,
/// background processes of a shell ignore interrupts. seid prints why it exits on stderr, followed by its flags or a
/// stack trace: more than the kubelet keeps. The line with the cause is therefore written to the termination log.
/// stderr of the shell itself is discarded, since it reports jobs. seid is awaited by its process id: bash forgets a job that has exited
/// before `wait` asks for it, but not the status of its process, which a second `wait` returns again. What is left of stderr is forwarded
/// for five seconds at most: a process that seid has started may hold it open.
const RUN: &str = include_str!("run.sh");

/// Exits with the code of seid.
const EXIT: &str = include_str!("exit.sh");

/// At the halt height seid sends itself SIGINT and SIGTERM, and dies of whichever is handled first: both count as
/// success. A seid that was terminated from outside is never a success: it has not reached the height.
const BOOTSTRAP_EXIT: &str = include_str!("bootstrap_exit.sh");

/// Waits until the sidecar lets seid start. The image has neither curl nor wget. The trap is needed in an isolated pod, where the
/// shell is the first process, which the kernel does not terminate by default.
const WAIT: &str = include_str!("wait.sh");

/// The termination message path.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Renders the init container that initializes the home directory.
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

/// Renders the node's own seid. It has no liveness probe: a restart does not help a seid that is halted, or catches up
/// for days.
pub(super) fn node_container(
    node: &SeiNode,
    kind: NodeKind<'_>,
    platform: &Platform,
    scheme: Scheme,
) -> Result<Container, RenderError> {
    let mut seid = seid_container(node, &node.spec.image, EXIT, &[], kind, platform)?;
    seid.volume_mounts.get_or_insert_default().extend(keys(&kind.key_secrets()));
    seid.ports = Some(SEID_PORTS.into_iter().map(container_port).collect());
    // Five days: restoring a snapshot of terabytes precedes the start of seid.
    seid.startup_probe = Some(probe::sidecar(
        sidecar_wire::path::HEALTHZ,
        scheme,
        Timing { delay: Some(5), period: 5, failures: 86400 },
    ));
    let mut readiness =
        probe::http("/lag_status", port::RPC, Timing { delay: Some(30), period: 10, failures: 3 });
    readiness.timeout_seconds = Some(5);
    seid.readiness_probe = Some(readiness);
    Ok(seid)
}

/// Renders the seid of the bootstrap pod, which stops at a height.
pub(super) fn bootstrap_container(
    node: &SeiNode,
    kind: NodeKind<'_>,
    platform: &Platform,
    image: &str,
    height: i64,
) -> Result<Container, RenderError> {
    seid_container(node, image, BOOTSTRAP_EXIT, &["--halt-height".into(), height.to_string()], kind, platform)
}

/// Renders a seid that starts once the sidecar is ready, and runs `exit_script` when seid has exited.
fn seid_container(
    node: &SeiNode,
    image: &str,
    exit_script: &str,
    args: &[String],
    kind: NodeKind<'_>,
    platform: &Platform,
) -> Result<Container, RenderError> {
    let health_endpoint = [sidecar_port(node).to_string(), sidecar_wire::path::HEALTHZ.into()];
    let name = container::SEID.to_owned();
    let mut variables = vec![
        home(),
        variable("TMPDIR", format!("{}/tmp", path::DATA)),
        variable("TERMINATION_LOG", TERMINATION_LOG),
    ];
    let mut mounts = vec![mount(volume::DATA, path::DATA)];
    if sidecar_isolation(node, platform) == SidecarIsolation::Isolated {
        variables.push(variable(env::sidecar::SEID_CONTROL_DIR, path::SEID_CONTROL));
        mounts.push(mount(volume::SEID_CONTROL, path::SEID_CONTROL));
    }
    Ok(Container {
        name: name.clone(),
        image: Some(image.into()),
        command: Some(shell(format!("{CONTROL}{WAIT}{RUN}{exit_script}"))),
        args: Some([name].into_iter().chain(health_endpoint).chain(args.iter().cloned()).collect()),
        env: Some(variables),
        termination_message_path: Some(TERMINATION_LOG.into()),
        // The log is lost with the pod: its end is kept for the status.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(mounts),
        resources: resources(node, kind, platform)?,
        security_context: Some(security::non_root()),
        ..Container::default()
    })
}

/// Returns the resources of the spec, and the default request of each resource for which the spec has neither a request nor a
/// limit: a default above a limit would be invalid.
fn resources(
    node: &SeiNode,
    kind: NodeKind<'_>,
    platform: &Platform,
) -> Result<Option<ResourceRequirements>, RenderError> {
    let mut resources = seid_resources(node);
    let default = kind.resources(platform);
    for (name, request) in [("cpu", &default.cpu), ("memory", &default.memory)] {
        let is_limited = resources.limits.as_ref().is_some_and(|limits| limits.contains_key(name));
        if !is_limited {
            let requests = resources.requests.get_or_insert_default();
            requests.entry(name.to_owned()).or_insert_with(|| Quantity(request.clone()));
        }
    }
    resources::requirements("resources", resources)
}

fn keys(keys: &ObservedKeys) -> impl Iterator<Item = VolumeMount> {
    let mount_if = |is_set: bool, volume, path, name| is_set.then(|| file(volume, path, name));
    let signing_key =
        mount_if(keys.signing_key.is_some(), volume::SIGNING_KEY, path::SIGNING_KEY, data_key::SIGNING_KEY);
    let node_key = mount_if(keys.node_key.is_some(), volume::NODE_KEY, path::NODE_KEY, data_key::NODE_KEY);
    signing_key.into_iter().chain(node_key)
}

fn shell(script: String) -> Vec<String> {
    vec!["/bin/bash".into(), "-c".into(), script]
}

fn home() -> EnvVar {
    variable("HOME", path::DATA)
}
