//! Containers of plugins and of the reporter: native sidecars that start before the API server and end after it.

use std::collections::BTreeMap;

use api::names::kms::pod::{REPORTER, STATIC_KUBECONFIG};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceRequirements, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::{Reporter, container, json, list, volumes};
use crate::kms::plugin::{Files, Program, Refusal};

/// The flag that tells where plugins listen.
pub(super) const SOCKETS_FLAG: &str = "--kms-sockets=";

/// The container of a plugin.
pub(super) fn plugin_container(name: &str, program: Program, files: &Files) -> Result<Value, Refusal> {
    let Program { image, args } = program;
    json(&Container {
        name: name.into(),
        image: Some(image),
        args: Some(args),
        resources: Some(requests("64Mi", "10m")),
        volume_mounts: Some(vec![volumes::sockets(false), volumes::files(files)]),
        ..sidecar(files)
    })
}

/// The container of the reporter, beside the one that asks the plugins.
pub(super) fn reporter_container(
    reporter: &Reporter,
    pod: &Value,
    beside: &str,
    sockets: &str,
    files: &Files,
) -> Result<Value, Refusal> {
    let Reporter { image, command, args: more } = reporter;
    if image.is_empty() {
        return Err(Refusal("the reporter has no image: give one".into()));
    }
    if command.is_empty() || command.iter().any(String::is_empty) {
        return Err(Refusal("the reporter has no command: give the program and its subcommand".into()));
    }
    let mut args = vec![format!("{SOCKETS_FLAG}{sockets}"), "--node-name=$(NODE_NAME)".to_owned()];
    let mut mounts = vec![volumes::sockets(true)];
    if let Files::Resources(_) = files {
        args.push(format!("--kubeconfig={STATIC_KUBECONFIG}"));
        mounts.push(volumes::files(files));
    }
    args.extend(more.iter().cloned());
    let mut sidecar = sidecar(files);
    if let Some(context) = sidecar.security_context.as_mut().filter(|context| context.run_as_user.is_none()) {
        context.run_as_user = user(pod, beside);
    }
    json(&Container {
        name: REPORTER.into(),
        image: Some(image.clone()),
        command: Some(command.clone()),
        args: Some(args),
        env: Some(vec![node_name()]),
        resources: Some(requests("32Mi", "10m")),
        volume_mounts: Some(mounts),
        ..sidecar
    })
}

/// Tells the container itself where the plugins listen.
pub(super) fn add_flag(pod: &mut Value, name: &str, sockets: &str) -> Result<(), Refusal> {
    let flag = format!("{SOCKETS_FLAG}{sockets}");
    list(container(pod, name)?, "args")?.push(Value::String(flag));
    Ok(())
}

/// Who the reporter is: as the one that asks the plugins, for whom their sockets are open. Without a word on it, root, as plugins
/// are then: the user of our own image may open nobody's sockets. A pod that refuses root has what its images say.
fn user(pod: &Value, beside: &str) -> Option<i64> {
    let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let container = containers.iter().find(|one| one["name"] == beside);
    let contexts = [container, Some(pod)].into_iter().flatten().map(|one| &one["securityContext"]);
    let said = contexts.clone().find_map(|context| context["runAsUser"].as_i64());
    let root = || contexts.clone().all(|context| context["runAsNonRoot"] != true).then_some(0);
    said.or_else(root)
}

/// What all of them have in common.
fn sidecar(files: &Files) -> Container {
    // The files of a static pod belong to root.
    let run_as_user = matches!(files, Files::Resources(_)).then_some(0);
    Container {
        image_pull_policy: Some("IfNotPresent".into()),
        restart_policy: Some("Always".into()),
        termination_message_path: Some("/dev/termination-log".into()),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
            read_only_root_filesystem: Some(true),
            run_as_user,
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn requests(memory: &str, cpu: &str) -> ResourceRequirements {
    let requests: BTreeMap<String, Quantity> =
        [("cpu", cpu), ("memory", memory)].map(|(name, value)| (name.into(), Quantity(value.into()))).into();
    ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }
}

fn node_name() -> EnvVar {
    let field = ObjectFieldSelector { api_version: Some("v1".into()), field_path: "spec.nodeName".into() };
    EnvVar {
        name: "NODE_NAME".into(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        value: None,
    }
}
