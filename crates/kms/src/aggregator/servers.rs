//! The API servers that should report, read from their pods. A pod counts whether it is ready or not: a failing plugin makes its API
//! server unready, and its report is the one that matters.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kms::{KMSHealthSpec, KmsTarget, Subjects};
use api::names::kms::pod::REPORTER;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use kube::ResourceExt;
use plan::kms::reporter_args::ReporterArgs;
use plan::kms::rollup::ApiServer;
use serde_json::Value;

use super::target::ObjectRef;

/// Drops all fields of a pod that do not say which reports to expect, before it is cached.
pub(super) fn strip_pod(pod: &mut Pod) {
    pod.metadata.annotations = None;
    let is_reporter = |name: &str| name == REPORTER;
    if let Some(spec) = &mut pod.spec {
        let keep = |containers: Vec<Container>| -> Vec<Container> {
            let reporters = containers.into_iter().filter(|one| is_reporter(&one.name));
            reporters
                .map(|Container { name, command, args, env, .. }| Container {
                    name,
                    command,
                    args,
                    env,
                    ..Container::default()
                })
                .collect()
        };
        *spec = PodSpec {
            node_name: spec.node_name.take(),
            init_containers: spec.init_containers.take().map(keep),
            containers: keep(std::mem::take(&mut spec.containers)),
            ..PodSpec::default()
        };
    }
    if let Some(status) = &mut pod.status {
        let keep = |statuses: Vec<ContainerStatus>| -> Vec<ContainerStatus> {
            statuses.into_iter().filter(|one| is_reporter(&one.name)).collect()
        };
        *status = PodStatus {
            phase: status.phase.take(),
            init_container_statuses: status.init_container_statuses.take().map(keep),
            container_statuses: status.container_statuses.take().map(keep),
            ..PodStatus::default()
        };
    }
}

/// Returns the container of the reporter.
pub(super) fn reporter_container(pod: &Pod) -> Option<&Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|one| one.name == REPORTER)
}

/// Returns the API servers of live pods: pods on a node that are neither terminating nor finished. Of several pods of one node and
/// instance of the reporter, the newest counts.
pub(super) fn live_servers(pods: &[Arc<Pod>], object: &ObjectRef) -> Vec<ApiServer> {
    let mut pods: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_live(pod)).collect();
    pods.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
    let mut servers = BTreeMap::new();
    for pod in pods {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
        let reporter = reporter_container(pod).map(parse_args);
        let reporter = reporter.filter(|args| args.publishes_on(object.target, &object.name));
        let instance = reporter.as_ref().and_then(|args| args.instance.clone());
        let server = ApiServer { node: node.clone(), reporter, has_started: has_started(pod) };
        servers.insert((node, instance), server);
    }
    servers.into_values().collect()
}

fn is_live(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn parse_args(container: &Container) -> ReporterArgs {
    let literal =
        container.env.iter().flatten().filter_map(|one| Some((one.name.clone(), one.value.clone()?)));
    let words = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
    ReporterArgs::parse(&words(&container.command), &words(&container.args), &literal.collect())
}

/// Returns whether the reporter has started in this pod, even if it has failed since.
fn has_started(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let is_terminated = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().is_some_and(|state| state.terminated.is_some())
    };
    all.any(|one| {
        let is_running = one.state.as_ref().is_some_and(|state| state.running.is_some());
        one.name == REPORTER
            && (is_running
                || one.restart_count > 0
                || is_terminated(&one.state)
                || is_terminated(&one.last_state))
    })
}

/// Returns the nodes of static pods in the operator's `nodeStatuses`. A new node has no pod yet.
pub(super) fn static_pod_nodes(target: KmsTarget, status: &Value) -> impl Iterator<Item = String> {
    let statuses = status["nodeStatuses"].as_array().filter(|_| target == KmsTarget::KubeApiServer);
    statuses.into_iter().flatten().filter_map(|one| one["nodeName"].as_str().map(str::to_owned))
}

/// Returns the spec of a KMSHealth. A missing or invalid spec is treated as empty.
pub(super) fn kms_health_spec(spec: &Value) -> KMSHealthSpec {
    serde_json::from_value(spec.clone()).unwrap_or_default()
}

/// Returns whether a pod is a subject of a KMSHealth.
pub(super) fn is_subject(pod: &Pod, subjects: &Subjects) -> bool {
    let labels = pod.metadata.labels.as_ref();
    subjects
        .pod_selector
        .iter()
        .all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOCKETS: &str = "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock";

    fn pod(name: &str, node: &str, change: Value) -> Arc<Pod> {
        let mut document = json!({
            "metadata": { "name": name, "creationTimestamp": "2026-05-18T10:00:00Z", "annotations": { "a": "b" } },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "kube-apiserver", "args": ["--v=2"] }],
                "initContainers": [{ "name": REPORTER, "args": [SOCKETS], "env": [
                    { "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
                ] }],
            },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }],
                "initContainerStatuses": [running()],
            },
        });
        merge(&mut document, change);
        let mut pod: Pod = serde_json::from_value(document).unwrap();
        strip_pod(&mut pod);
        Arc::new(pod)
    }

    fn running() -> Value {
        json!({ "name": REPORTER, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } })
    }

    fn merge(target: &mut Value, change: Value) {
        match change {
            Value::Object(fields) => {
                fields.into_iter().for_each(|(name, value)| merge(&mut target[name.as_str()], value));
            }
            other => *target = other,
        }
    }

    /// Returns nodes of servers with a reporter, with `!` if it has not started, and other nodes in parentheses.
    fn nodes(pods: &[Arc<Pod>]) -> Vec<String> {
        let object = ObjectRef { target: KmsTarget::OpenShiftApiServer, name: "cluster".into() };
        let name = |server: ApiServer| match (server.reporter, server.has_started) {
            (None, _) => format!("({})", server.node),
            (Some(_), true) => server.node,
            (Some(_), false) => format!("{}!", server.node),
        };
        live_servers(pods, &object).into_iter().map(name).collect()
    }

    #[test]
    fn unready_pods_are_expected() {
        let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
        let pending = json!({ "status": { "phase": "Pending", "initContainerStatuses": [] } });
        let pods = [pod("1", "a", json!({})), pod("2", "b", unready), pod("3", "c", pending)];
        assert_eq!(nodes(&pods), ["a", "b", "c!"]);
    }

    #[test]
    fn terminating_and_finished_pods_are_not_expected() {
        let terminating = json!({ "metadata": { "deletionTimestamp": "2026-05-18T10:00:00Z" } });
        let pods = [
            pod("1", "a", terminating),
            pod("2", "b", json!({ "status": { "phase": "Succeeded" } })),
            pod("3", "c", json!({ "status": { "phase": "Failed" } })),
            pod("4", "d", json!({ "spec": { "nodeName": null } })),
            pod("5", "e", json!({})),
        ];
        assert_eq!(nodes(&pods), ["e"]);
    }

    #[test]
    fn newest_pod_of_a_node_counts() {
        let newer = json!({ "metadata": { "creationTimestamp": "2026-05-18T11:00:00Z" } });
        let mut without = newer.clone();
        merge(&mut without, json!({ "spec": { "initContainers": [] } }));
        let mut starting = newer.clone();
        merge(&mut starting, json!({ "status": { "initContainerStatuses": [] } }));
        let pods = [
            pod("1", "a", without),
            pod("2", "a", json!({})),
            pod("3", "b", starting),
            pod("4", "b", json!({})),
        ];
        assert_eq!(nodes(&pods), ["(a)", "b!"]);
    }

    #[test]
    fn reporters_of_other_objects_and_instances_are_told_apart() {
        let args = |arg: &str| json!({ "spec": { "initContainers": [{ "name": REPORTER, "args": [SOCKETS, arg] }] } });
        let pods = [
            pod("1", "a", args("--target=kubeapiserver")),
            pod("2", "b", args("--target-name=other")),
            pod("3", "c", args("--target=openshiftapiserver")),
            pod("4", "c", args("--instance=blue")),
        ];
        assert_eq!(nodes(&pods), ["(a)", "(b)", "c", "c"]);
    }

    #[test]
    fn reporter_has_started_even_if_it_fails_now() {
        for (status, expected) in [
            (json!([]), "a!"),
            (json!([{ "state": { "waiting": { "reason": "PodInitializing" } } }]), "a!"),
            (json!([{ "state": { "waiting": { "reason": "ImagePullBackOff" } } }]), "a!"),
            (json!([{ "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "restartCount": 3 }]), "a"),
            (json!([{ "state": { "terminated": { "exitCode": 1 } } }]), "a"),
        ] {
            let mut status = status;
            for one in status.as_array_mut().unwrap() {
                for (name, value) in [
                    ("name", json!(REPORTER)),
                    ("image", json!("")),
                    ("imageID", json!("")),
                    ("ready", json!(false)),
                ] {
                    one[name] = value;
                }
                if one["restartCount"].is_null() {
                    one["restartCount"] = json!(0);
                }
            }
            let pod = pod("1", "a", json!({ "status": { "initContainerStatuses": status } }));
            assert_eq!(nodes(&[pod]), [expected], "{status}");
        }
    }

    #[test]
    fn stripped_pod_has_only_the_reporter() {
        let pod = pod("1", "a", json!({}));
        let spec = pod.spec.as_ref().unwrap();
        assert!(spec.containers.is_empty() && pod.metadata.annotations.is_none());
        assert!(pod.status.as_ref().unwrap().conditions.is_none());
        assert_eq!(reporter_container(&pod).unwrap().args.as_deref(), Some(&[SOCKETS.to_owned()][..]));
    }

    #[test]
    fn static_pods_are_listed_only_for_kube_apiserver() {
        let status =
            json!({ "nodeStatuses": [{ "nodeName": "a", "currentRevision": 7 }, { "nodeName": "b" }] });
        let nodes = |target| static_pod_nodes(target, &status).collect::<Vec<_>>();
        assert_eq!(nodes(KmsTarget::KubeApiServer), ["a", "b"]);
        assert_eq!(nodes(KmsTarget::Authentication), Vec::<String>::new());
    }

    #[test]
    fn subjects_default_to_kube_apiserver() {
        let labeled = |labels: Value| pod("1", "a", json!({ "metadata": { "labels": labels } }));
        let subjects = kms_health_spec(&json!({ "subjects": {} })).subjects.unwrap();
        assert!(is_subject(
            &labeled(json!({ "component": "kube-apiserver", "tier": "control-plane" })),
            &subjects
        ));
        assert!(!is_subject(&labeled(json!({ "component": "etcd" })), &subjects));
        assert!(!is_subject(&labeled(json!({})), &subjects));
    }
}
