//! The status of a pod as its kubelet would write it: a pure function of the pod, of how far it is, and of the time.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::direction::Breakage;

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No container has started.
    Creating,
    /// Containers start or run; probes succeed or do not.
    Started {
        /// Whether the sidecar says that the node may start, which every probe comes down to.
        ready: bool,
    },
    /// The main containers have ended, and the others with them.
    Ended {
        /// The exit code of the main containers.
        exit_code: i32,
    },
}

/// Where a pod is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) host_ip: String,
    pub(super) pod_ip: String,
}

/// The status of a pod that has a machine. What is broken about a container is asked of `broken`; it concerns only those
/// that do not run yet.
pub(super) fn of(
    pod: &Pod,
    stage: Stage,
    place: &Place,
    broken: impl Fn(&Container) -> Option<Breakage>,
    now: &Time,
) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let mut writer = Writer { before: &before, stage, broken, now, blocked: stage == Stage::Creating };
    let first: Vec<_> = spec.init_containers.iter().flatten().map(|one| writer.initial(one)).collect();
    let initialized = !writer.blocked;
    let main: Vec<_> = spec.containers.iter().map(|one| writer.main(one, !first.is_empty())).collect();

    let ready = main.iter().all(|status| status.ready) && first.iter().all(|status| status.ready);
    let ended = matches!(stage, Stage::Ended { .. });
    let conditions = [
        ("PodReadyToStartContainers", stage != Stage::Creating && !ended, None),
        ("Initialized", initialized, (!initialized).then_some("ContainersNotInitialized")),
        ("Ready", ready && !ended, not_ready(ready, ended)),
        ("ContainersReady", ready && !ended, not_ready(ready, ended)),
        ("PodScheduled", true, None),
    ];
    let conditions =
        conditions.map(|(name, holds, reason)| condition(&before, name, holds, reason, None, now));
    PodStatus {
        phase: Some(phase(stage, &main).into()),
        conditions: Some(conditions.into()),
        start_time: before.start_time.clone().or_else(|| Some(now.clone())),
        host_ip: Some(place.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: place.host_ip.clone() }]),
        pod_ip: (stage != Stage::Creating).then(|| place.pod_ip.clone()),
        pod_ips: (stage != Stage::Creating).then(|| vec![PodIP { ip: place.pod_ip.clone() }]),
        init_container_statuses: (!first.is_empty()).then_some(first),
        container_statuses: Some(main),
        ..before.clone()
    }
}

/// The status of a pod that no machine is found for.
pub(super) fn unschedulable(pod: &Pod, why: &str, now: &Time) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let condition = condition(&before, "PodScheduled", false, Some("Unschedulable"), Some(why), now);
    PodStatus { phase: Some("Pending".into()), conditions: Some(vec![condition]), ..before }
}

/// Whether a container runs by this status.
pub(super) fn runs(status: &PodStatus, container: &str) -> bool {
    find(status, container).and_then(|one| one.state.as_ref()).is_some_and(|state| state.running.is_some())
}

/// Whether any container has started by this status.
pub(super) fn has_begun(status: &PodStatus) -> bool {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.into_iter().any(|one| has_started(status, &one.name))
}

fn find<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let first = status.init_container_statuses.iter().flatten();
    first.chain(status.container_statuses.iter().flatten()).find(|one| one.name == container)
}

struct Writer<'a, B> {
    before: &'a PodStatus,
    stage: Stage,
    broken: B,
    now: &'a Time,
    /// An initial container that does not come up keeps back all behind it.
    blocked: bool,
}

impl<B: Fn(&Container) -> Option<Breakage>> Writer<'_, B> {
    fn initial(&mut self, container: &Container) -> ContainerStatus {
        if let Some(waiting) = self.waiting(container, "PodInitializing") {
            self.blocked = true;
            return waiting;
        }
        let native = container.restart_policy.as_deref() == Some("Always");
        match self.stage {
            Stage::Started { ready } if native => {
                let probed = container.readiness_probe.is_some();
                self.running(container, true, ready || !probed)
            }
            _ => self.terminated(container, 0, true),
        }
    }

    fn main(&self, container: &Container, has_initial: bool) -> ContainerStatus {
        let reason = if has_initial { "PodInitializing" } else { "ContainerCreating" };
        if let Some(waiting) = self.waiting(container, reason) {
            return waiting;
        }
        match self.stage {
            Stage::Ended { exit_code } => self.terminated(container, exit_code, false),
            Stage::Creating | Stage::Started { ready: false } => {
                let started = container.startup_probe.is_none();
                let probed = container.readiness_probe.is_some();
                self.running(container, started, started && !probed)
            }
            Stage::Started { ready: true } => self.running(container, true, true),
        }
    }

    /// The status of a container that has to wait, if it has to.
    fn waiting(&self, container: &Container, reason: &str) -> Option<ContainerStatus> {
        if self.blocked {
            return Some(self.waiting_with(container, reason, None));
        }
        if has_started(self.before, &container.name) {
            return None;
        }
        let broken = (self.broken)(container)?;
        let (reason, message) = broken.waiting();
        let mut status = self.waiting_with(container, reason, Some(message));
        if matches!(broken, Breakage::CrashLoopBackOff(_)) {
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
        let before = self.state(container).and_then(|state| state.running.clone());
        let running = before.unwrap_or_else(|| ContainerStateRunning { started_at: Some(self.now.clone()) });
        let state = ContainerState { running: Some(running), ..ContainerState::default() };
        self.status(container, state, started, ready)
    }

    fn terminated(&self, container: &Container, exit_code: i32, ready: bool) -> ContainerStatus {
        let state = self.state(container);
        let terminated = state.and_then(|state| state.terminated.clone()).unwrap_or_else(|| {
            let began = state.and_then(|state| state.running.as_ref()?.started_at.clone());
            ContainerStateTerminated {
                exit_code,
                reason: Some(if exit_code == 0 { "Completed" } else { "Error" }.into()),
                started_at: Some(began.unwrap_or_else(|| self.now.clone())),
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
            // Not absent: the API server shows an empty one, and the same must be written as the same.
            last_state: Some(ContainerState::default()),
            ..ContainerStatus::default()
        }
    }

    fn state(&self, container: &Container) -> Option<&ContainerState> {
        find(self.before, &container.name)?.state.as_ref()
    }
}

fn has_started(status: &PodStatus, container: &str) -> bool {
    find(status, container)
        .and_then(|one| one.state.as_ref())
        .is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// A container that never ran keeps its pod pending, one that ends again and again does not.
fn phase(stage: Stage, main: &[ContainerStatus]) -> &'static str {
    let never_ran = |status: &ContainerStatus| {
        let ended = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
        !ended && status.state.as_ref().is_some_and(|state| state.waiting.is_some())
    };
    match stage {
        Stage::Ended { exit_code: 0 } => "Succeeded",
        Stage::Ended { .. } => "Failed",
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

/// A condition, which keeps the time of its last change.
fn condition(
    before: &PodStatus,
    name: &str,
    holds: bool,
    reason: Option<&str>,
    message: Option<&str>,
    now: &Time,
) -> PodCondition {
    let status = if holds { "True" } else { "False" };
    let known = before.conditions.iter().flatten().find(|one| one.type_ == name);
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
        stage: Stage,
        second: i64,
        broken: impl Fn(&Container) -> Option<Breakage>,
    ) -> Vec<String> {
        let place = Place { host_ip: "198.18.0.1".into(), pod_ip: "198.18.0.2".into() };
        let status = of(pod, stage, &place, broken, &at(second));
        let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        let told = all.map(|one| {
            let state = one.state.as_ref().unwrap();
            let ready = if one.ready { "+" } else { "" };
            match (&state.waiting, &state.running) {
                (Some(waiting), _) => waiting.reason.clone().unwrap(),
                (_, Some(_)) => format!("running{ready}"),
                _ => format!("ended {}", state.terminated.as_ref().unwrap().exit_code),
            }
        });
        let told = std::iter::once(status.phase.clone().unwrap()).chain(told).collect();
        pod.status = Some(status);
        told
    }

    #[test]
    fn a_pod_comes_up_in_steps_and_ends() {
        let mut pod = pod();
        let good = |_: &Container| None;
        let waiting = "PodInitializing";
        assert_eq!(
            next(&mut pod, Stage::Creating, 1, good),
            ["Pending", waiting, waiting, waiting, waiting, waiting]
        );
        assert_eq!(
            next(&mut pod, Stage::Started { ready: false }, 2, good),
            ["Running", "ended 0", "running+", "running", "running", "running+"]
        );
        let before = pod.status.clone();
        next(&mut pod, Stage::Started { ready: false }, 3, good);
        assert_eq!(pod.status, before, "the same is written as the same, later too");
        assert_eq!(
            next(&mut pod, Stage::Started { ready: true }, 4, good),
            ["Running", "ended 0", "running+", "running+", "running+", "running+"]
        );
        let ready = |pod: &Pod| {
            let status = pod.status.clone().unwrap();
            let ready = status.conditions.unwrap().into_iter().find(|one| one.type_ == "Ready").unwrap();
            (ready.status, ready.last_transition_time.unwrap())
        };
        assert_eq!(ready(&pod), ("True".into(), at(4)));
        assert_eq!(
            next(&mut pod, Stage::Ended { exit_code: 0 }, 5, good),
            ["Succeeded", "ended 0", "ended 0", "ended 0", "ended 0", "ended 0"]
        );
        assert_eq!(ready(&pod), ("False".into(), at(5)));
    }

    #[test]
    fn what_is_broken_keeps_back_what_comes_after() {
        let of_image = |image: &'static str, breakage: Breakage| {
            move |container: &Container| (container.image.as_deref() == Some(image)).then(|| breakage.clone())
        };
        let started = Stage::Started { ready: false };
        let waiting = "PodInitializing";
        let pull = Breakage::ImagePullBackOff("gone".into());
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
        let crash = Breakage::CrashLoopBackOff("back-off 5m0s".into());
        assert_eq!(
            next(&mut pod(), started, 1, of_image("exporter", crash)),
            ["Running", "ended 0", "running+", "running", "running", "CrashLoopBackOff"]
        );
        // What runs is not stopped by an image that breaks later.
        let mut pod = pod();
        next(&mut pod, started, 1, |_| None);
        assert_eq!(
            next(&mut pod, started, 2, of_image("seid", pull)),
            ["Running", "ended 0", "running+", "running", "running", "running+"]
        );
    }
}
