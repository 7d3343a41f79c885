//! Builds the pod status that a kubelet would write: a pure function of the pod, its stage and the time.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::script::ContainerFailure;

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    /// No container has started.
    Creating,
    /// Containers are starting or running; probes may fail.
    Started {
        /// Whether the sidecar is ready, which every probe depends on.
        ready: bool,
    },
    /// All containers have exited.
    Ended {
        /// Exit code of the main containers.
        exit_code: i32,
    },
}

/// Addresses of a pod and of its node.
#[derive(Clone, Debug)]
pub(super) struct PodAddresses {
    pub(super) host_ip: String,
    pub(super) pod_ip: String,
}

/// Returns the status of a scheduled pod. `broken` returns why a container fails; it is asked only about containers
/// that do not run yet.
pub(super) fn build(
    pod: &Pod,
    stage: PodStage,
    addresses: &PodAddresses,
    broken: impl Fn(&Container) -> Option<ContainerFailure>,
    now: &Time,
) -> PodStatus {
    let previous = pod.status.clone().unwrap_or_default();
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let mut builder =
        StatusBuilder { previous: &previous, stage, broken, now, blocked: stage == PodStage::Creating };
    let init: Vec<_> = spec.init_containers.iter().flatten().map(|one| builder.init_container(one)).collect();
    let initialized = !builder.blocked;
    let main: Vec<_> =
        spec.containers.iter().map(|one| builder.main_container(one, !init.is_empty())).collect();

    let ready = main.iter().all(|status| status.ready) && init.iter().all(|status| status.ready);
    let ended = matches!(stage, PodStage::Ended { .. });
    let conditions = [
        ("PodReadyToStartContainers", stage != PodStage::Creating && !ended, None),
        ("Initialized", initialized, (!initialized).then_some("ContainersNotInitialized")),
        ("Ready", ready && !ended, not_ready(ready, ended)),
        ("ContainersReady", ready && !ended, not_ready(ready, ended)),
        ("PodScheduled", true, None),
    ];
    let conditions =
        conditions.map(|(name, holds, reason)| condition(&previous, name, holds, reason, None, now));
    PodStatus {
        phase: Some(phase(stage, &main).into()),
        conditions: Some(conditions.into()),
        start_time: previous.start_time.clone().or_else(|| Some(now.clone())),
        host_ip: Some(addresses.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: addresses.host_ip.clone() }]),
        pod_ip: (stage != PodStage::Creating).then(|| addresses.pod_ip.clone()),
        pod_ips: (stage != PodStage::Creating).then(|| vec![PodIP { ip: addresses.pod_ip.clone() }]),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(main),
        ..previous.clone()
    }
}

/// Returns the status of an unschedulable pod.
pub(super) fn unschedulable(pod: &Pod, message: &str, now: &Time) -> PodStatus {
    let previous = pod.status.clone().unwrap_or_default();
    let condition = condition(&previous, "PodScheduled", false, Some("Unschedulable"), Some(message), now);
    PodStatus { phase: Some("Pending".into()), conditions: Some(vec![condition]), ..previous }
}

/// Whether the container runs according to the status.
pub(super) fn runs(status: &PodStatus, container: &str) -> bool {
    find(status, container).and_then(|one| one.state.as_ref()).is_some_and(|state| state.running.is_some())
}

/// Whether any container has started according to the status.
pub(super) fn has_any_started(status: &PodStatus) -> bool {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.into_iter().any(|one| has_started(status, &one.name))
}

fn find<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten()).find(|one| one.name == container)
}

struct StatusBuilder<'a, B> {
    previous: &'a PodStatus,
    stage: PodStage,
    broken: B,
    now: &'a Time,
    /// Set by an init container that does not start: everything after it waits.
    blocked: bool,
}

impl<B: Fn(&Container) -> Option<ContainerFailure>> StatusBuilder<'_, B> {
    fn init_container(&mut self, container: &Container) -> ContainerStatus {
        if let Some(waiting) = self.waiting(container, "PodInitializing") {
            self.blocked = true;
            return waiting;
        }
        let native = container.restart_policy.as_deref() == Some("Always");
        match self.stage {
            PodStage::Started { ready } if native => {
                let probed = container.readiness_probe.is_some();
                self.running(container, true, ready || !probed)
            }
            _ => self.terminated(container, 0, true),
        }
    }

    fn main_container(&self, container: &Container, has_init: bool) -> ContainerStatus {
        let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
        if let Some(waiting) = self.waiting(container, reason) {
            return waiting;
        }
        match self.stage {
            PodStage::Ended { exit_code } => self.terminated(container, exit_code, false),
            PodStage::Creating | PodStage::Started { ready: false } => {
                let started = container.startup_probe.is_none();
                let probed = container.readiness_probe.is_some();
                self.running(container, started, started && !probed)
            }
            PodStage::Started { ready: true } => self.running(container, true, true),
        }
    }

    /// Returns the waiting status of a container that cannot start.
    fn waiting(&self, container: &Container, reason: &str) -> Option<ContainerStatus> {
        if self.blocked {
            return Some(self.waiting_with(container, reason, None));
        }
        if has_started(self.previous, &container.name) {
            return None;
        }
        let broken = (self.broken)(container)?;
        let (reason, message) = broken.waiting();
        let mut status = self.waiting_with(container, reason, Some(message));
        if matches!(broken, ContainerFailure::CrashLoopBackOff(_)) {
            status.restart_count = 1;
            status.last_state = Some(ContainerState {
                terminated: Some(ContainerStateTerminated {
                    exit_code: 1,
                    reason: Some("Error".into()),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            });
        }
        Some(status)
    }

    fn waiting_with(&self, container: &Container, reason: &str, message: Option<&str>) -> ContainerStatus {
        let waiting =
            ContainerStateWaiting { reason: Some(reason.into()), message: message.map(str::to_owned) };
        let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
        self.status(container, state, false, false)
    }

    fn running(&self, container: &Container, started: bool, ready: bool) -> ContainerStatus {
        let previous = self.state(container).and_then(|state| state.running.clone());
        let running =
            previous.unwrap_or_else(|| ContainerStateRunning { started_at: Some(self.now.clone()) });
        let state = ContainerState { running: Some(running), ..ContainerState::default() };
        self.status(container, state, started, ready)
    }

    fn terminated(&self, container: &Container, exit_code: i32, ready: bool) -> ContainerStatus {
        let state = self.state(container);
        let terminated = state.and_then(|state| state.terminated.clone()).unwrap_or_else(|| {
            let started_at = state.and_then(|state| state.running.as_ref()?.started_at.clone());
            ContainerStateTerminated {
                exit_code,
                reason: Some(if exit_code == 0 { "Completed" } else { "Error" }.into()),
                started_at: Some(started_at.unwrap_or_else(|| self.now.clone())),
                finished_at: Some(self.now.clone()),
                ..ContainerStateTerminated::default()
            }
        });
        let state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
        self.status(container, state, false, ready)
    }

    fn status(
        &self,
        container: &Container,
        state: ContainerState,
        started: bool,
        ready: bool,
    ) -> ContainerStatus {
        let image = container.image.clone().unwrap_or_default();
        let pulled = state.waiting.is_none();
        ContainerStatus {
            name: container.name.clone(),
            image_id: if pulled { image.clone() } else { String::new() },
            image,
            started: Some(started),
            ready,
            state: Some(state),
            // Not `None`: the API server returns an empty object, and an unchanged status must compare equal.
            last_state: Some(ContainerState::default()),
            ..ContainerStatus::default()
        }
    }

    fn state(&self, container: &Container) -> Option<&ContainerState> {
        find(self.previous, &container.name)?.state.as_ref()
    }
}

fn has_started(status: &PodStatus, container: &str) -> bool {
    find(status, container)
        .and_then(|one| one.state.as_ref())
        .is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// A container that never ran keeps its pod Pending; one in CrashLoopBackOff does not.
fn phase(stage: PodStage, main: &[ContainerStatus]) -> &'static str {
    let never_ran = |status: &ContainerStatus| {
        let ended = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
        !ended && status.state.as_ref().is_some_and(|state| state.waiting.is_some())
    };
    match stage {
        PodStage::Ended { exit_code: 0 } => "Succeeded",
        PodStage::Ended { .. } => "Failed",
        _ if main.iter().any(never_ran) => "Pending",
        _ => "Running",
    }
}

fn not_ready(ready: bool, ended: bool) -> Option<&'static str> {
    match (ready, ended) {
        (_, true) => Some("PodCompleted"),
        (false, false) => Some("ContainersNotReady"),
        (true, false) => None,
    }
}

/// Builds a condition; keeps its transition time while the status is unchanged.
fn condition(
    previous: &PodStatus,
    name: &str,
    holds: bool,
    reason: Option<&str>,
    message: Option<&str>,
    now: &Time,
) -> PodCondition {
    let status = if holds { "True" } else { "False" };
    let known = previous.conditions.iter().flatten().find(|one| one.type_ == name);
    let since = known.filter(|one| one.status == status).and_then(|one| one.last_transition_time.clone());
    PodCondition {
        type_: name.into(),
        status: status.into(),
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        ..PodCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        let probe = json!({"httpGet": {"path": "/v0/healthz", "port": 8443}});
        serde_json::from_value(json!({
            "metadata": {"name": "a-0"},
            "spec": {
                "initContainers": [
                    {"name": "seid-init", "image": "seid"},
                    {"name": "sei-sidecar", "image": "sidecar", "restartPolicy": "Always"},
                    {"name": "kube-rbac-proxy", "image": "proxy", "restartPolicy": "Always", "readinessProbe": probe},
                ],
                "containers": [
                    {"name": "seid", "image": "seid", "startupProbe": probe},
                    {"name": "cosmos-exporter", "image": "exporter"},
                ],
            },
        }))
        .unwrap()
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn next(
        pod: &mut Pod,
        stage: PodStage,
        second: i64,
        broken: impl Fn(&Container) -> Option<ContainerFailure>,
    ) -> Vec<String> {
        let addresses = PodAddresses { host_ip: "198.18.0.1".into(), pod_ip: "198.18.0.2".into() };
        let status = build(pod, stage, &addresses, broken, &at(second));
        let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        let states = all.map(|one| {
            let state = one.state.as_ref().unwrap();
            let ready = if one.ready { "+" } else { "" };
            match (&state.waiting, &state.running) {
                (Some(waiting), _) => waiting.reason.clone().unwrap(),
                (_, Some(_)) => format!("running{ready}"),
                _ => format!("ended {}", state.terminated.as_ref().unwrap().exit_code),
            }
        });
        let summary = std::iter::once(status.phase.clone().unwrap()).chain(states).collect();
        pod.status = Some(status);
        summary
    }

    #[test]
    fn pod_starts_in_steps_and_exits() {
        let mut pod = pod();
        let good = |_: &Container| None;
        let waiting = "PodInitializing";
        assert_eq!(
            next(&mut pod, PodStage::Creating, 1, good),
            ["Pending", waiting, waiting, waiting, waiting, waiting]
        );
        assert_eq!(
            next(&mut pod, PodStage::Started { ready: false }, 2, good),
            ["Running", "ended 0", "running+", "running", "running", "running+"]
        );
        let previous = pod.status.clone();
        next(&mut pod, PodStage::Started { ready: false }, 3, good);
        assert_eq!(pod.status, previous, "an unchanged status is rebuilt identically later");
        assert_eq!(
            next(&mut pod, PodStage::Started { ready: true }, 4, good),
            ["Running", "ended 0", "running+", "running+", "running+", "running+"]
        );
        let ready = |pod: &Pod| {
            let status = pod.status.clone().unwrap();
            let ready = status.conditions.unwrap().into_iter().find(|one| one.type_ == "Ready").unwrap();
            (ready.status, ready.last_transition_time.unwrap())
        };
        assert_eq!(ready(&pod), ("True".into(), at(4)));
        assert_eq!(
            next(&mut pod, PodStage::Ended { exit_code: 0 }, 5, good),
            ["Succeeded", "ended 0", "ended 0", "ended 0", "ended 0", "ended 0"]
        );
        assert_eq!(ready(&pod), ("False".into(), at(5)));
    }

    #[test]
    fn failing_container_blocks_the_ones_after_it() {
        let of_image = |image: &'static str, breakage: ContainerFailure| {
            move |container: &Container| (container.image.as_deref() == Some(image)).then(|| breakage.clone())
        };
        let started = PodStage::Started { ready: false };
        let waiting = "PodInitializing";
        let pull = ContainerFailure::ImagePullBackOff("gone".into());
        assert_eq!(
            next(&mut pod(), started, 1, of_image("seid", pull.clone())),
            ["Pending", "ImagePullBackOff", waiting, waiting, waiting, waiting]
        );
        assert_eq!(
            next(&mut pod(), started, 1, of_image("proxy", pull.clone())),
            ["Pending", "ended 0", "running+", "ImagePullBackOff", waiting, waiting]
        );
        assert_eq!(
            next(&mut pod(), started, 1, of_image("exporter", pull.clone())),
            ["Pending", "ended 0", "running+", "running", "running", "ImagePullBackOff"]
        );
        let crash = ContainerFailure::CrashLoopBackOff("back-off 5m0s".into());
        assert_eq!(
            next(&mut pod(), started, 1, of_image("exporter", crash)),
            ["Running", "ended 0", "running+", "running", "running", "CrashLoopBackOff"]
        );
        // A running container is not stopped when its image breaks later.
        let mut pod = pod();
        next(&mut pod, started, 1, |_| None);
        assert_eq!(
            next(&mut pod, started, 2, of_image("seid", pull)),
            ["Running", "ended 0", "running+", "running", "running", "running+"]
        );
    }
}
