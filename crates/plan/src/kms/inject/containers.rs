//! Plugin and reporter containers: native sidecars that start before the API server and stop after it.

use std::collections::BTreeMap;

use api::names::kms::pod::{REPORTER, STATIC_KUBECONFIG};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceRequirements, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::{Reporter, container, json, list_field, volumes};
use crate::kms::plugin::{InvalidKmsConfig, PluginContainer, PluginFiles};

/// Flag with the plugin sockets.
pub(super) const SOCKETS_FLAG: &str = "--kms-sockets=";

/// Renders the container of a plugin.
pub(super) fn plugin_container(
    name: &str,
    program: PluginContainer,
    files: &PluginFiles,
) -> Result<Value, InvalidKmsConfig> {
    let PluginContainer { image, args } = program;
    json(&Container {
        name: name.into(),
        image: Some(image),
        args: Some(args),
        resources: Some(requests("64Mi", "10m")),
        volume_mounts: Some(vec![volumes::sockets(false), volumes::files(files)]),
        ..sidecar(files)
    })
}

/// Renders the container of the reporter. `api_server_container` is the name of the container that uses the plugins.
pub(super) fn reporter_container(
    reporter: &Reporter,
    pod: &Value,
    api_server_container: &str,
    sockets: &str,
    files: &PluginFiles,
) -> Result<Value, InvalidKmsConfig> {
    let Reporter { image, command, args: extra_args } = reporter;
    if image.is_empty() {
        return Err(InvalidKmsConfig("reporter image is required".into()));
    }
    if command.is_empty() || command.iter().any(String::is_empty) {
        return Err(InvalidKmsConfig("reporter command is required: the program and its subcommand".into()));
    }
    let mut args = vec![format!("{SOCKETS_FLAG}{sockets}"), "--node-name=$(NODE_NAME)".to_owned()];
    let mut mounts = vec![volumes::sockets(true)];
    if let PluginFiles::Resources(_) = files {
        args.push(format!("--kubeconfig={STATIC_KUBECONFIG}"));
        mounts.push(volumes::files(files));
    }
    args.extend(extra_args.iter().cloned());
    let mut sidecar = sidecar(files);
    if let Some(context) = sidecar.security_context.as_mut().filter(|context| context.run_as_user.is_none()) {
        context.run_as_user = reporter_user(pod, api_server_container);
    }
    json(&Container {
        name: REPORTER.into(),
        image: Some(image.clone()),
        command: Some(command.clone()),
        args: Some(args),
        env: Some(vec![node_name_env()]),
        resources: Some(requests("32Mi", "10m")),
        volume_mounts: Some(mounts),
        ..sidecar
    })
}

/// Adds the flag with the plugin sockets to a container.
pub(super) fn add_flag(pod: &mut Value, name: &str, sockets: &str) -> Result<(), InvalidKmsConfig> {
    let flag = format!("{SOCKETS_FLAG}{sockets}");
    list_field(container(pod, name)?, "args")?.push(Value::String(flag));
    Ok(())
}

/// Returns the user of the reporter: the user of the container that uses the plugins, which may open their sockets. If none is set,
/// root, like the plugins, because the user of the Outrigger image cannot open their sockets. With `runAsNonRoot`, the images decide.
fn reporter_user(pod: &Value, api_server_container: &str) -> Option<i64> {
    let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let container = containers.iter().find(|one| one["name"] == api_server_container);
    let contexts = [container, Some(pod)].into_iter().flatten().map(|one| &one["securityContext"]);
    let explicit = contexts.clone().find_map(|context| context["runAsUser"].as_i64());
    let root = || contexts.clone().all(|context| context["runAsNonRoot"] != true).then_some(0);
    explicit.or_else(root)
}

/// Returns the fields common to all injected containers.
fn sidecar(files: &PluginFiles) -> Container {
    // The files of a static pod are owned by root.
    let run_as_user = matches!(files, PluginFiles::Resources(_)).then_some(0);
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

fn node_name_env() -> EnvVar {
    let field = ObjectFieldSelector { api_version: Some("v1".into()), field_path: "spec.nodeName".into() };
    EnvVar {
        name: "NODE_NAME".into(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        value: None,
    }
}
