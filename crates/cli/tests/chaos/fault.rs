//! Injected faults.

use std::fmt;

use api::names::{container, lease, object};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::Api;
use testbed::cluster::kubectl;
use testbed::cluster::node::kill_container;
use testbed::demo::platform::{FULL_NODE, NAMESPACE, OPERATOR, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, TIMEOUT};
use testbed::harness::wait;
use testbed::{Error, Node};

/// Injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    PodDeleted,
    SidecarKilled,
    OperatorKilled,
    KubeletRestarted,
    ContainerdRestarted,
    ApiServerRestarted,
}

impl Fault {
    pub const ALL: [Self; 6] = [
        Self::PodDeleted,
        Self::SidecarKilled,
        Self::OperatorKilled,
        Self::KubeletRestarted,
        Self::ContainerdRestarted,
        Self::ApiServerRestarted,
    ];

    /// Injects the fault into a random target and returns the name of the target.
    pub async fn inject(self, nodes: &SeiNodes<'_>, rng: &mut Rng) -> Result<String, Error> {
        let node = if rng.bool() { VALIDATOR } else { FULL_NODE };
        let machines = nodes.platform().cluster().nodes();
        let machine: &Node = &machines[rng.usize(..machines.len())];
        match self {
            Self::PodDeleted => {
                let pod = object::pod(node);
                // The edit may have replaced the pod already.
                let delete = ["delete", "pod", &pod, "--namespace", NAMESPACE, "--wait=false"];
                kubectl::run(nodes.plane(), &[&delete[..], &["--ignore-not-found"]].concat(), None)?;
                Ok(node.to_owned())
            }
            Self::SidecarKilled => {
                kill(node, container::SIDECAR, || nodes.pod(node)).await?;
                Ok(node.to_owned())
            }
            Self::OperatorKilled => {
                let client = nodes.plane().client().await?;
                let leases: Api<Lease> = Api::namespaced(client.clone(), OPERATOR.0);
                let pods: Api<Pod> = Api::namespaced(client, OPERATOR.0);
                let holder = leases.get(lease::OPERATOR).await?.spec.and_then(|spec| spec.holder_identity);
                let leader = holder.unwrap_or_default().split('_').next().unwrap_or_default().to_owned();
                kill(&leader, "operator", || async { Ok(pods.get(&leader).await?) }).await?;
                Ok("leader".to_owned())
            }
            Self::KubeletRestarted => {
                machine.restart_kubelet(nodes.plane())?;
                Ok(machine.name().to_owned())
            }
            Self::ContainerdRestarted => {
                machine.restart_containerd().await?;
                Ok(machine.name().to_owned())
            }
            Self::ApiServerRestarted => {
                nodes.plane().restart_api_server().await?;
                Ok("API server".to_owned())
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PodDeleted => "pod deleted",
            Self::SidecarKilled => "sidecar killed",
            Self::OperatorKilled => "operator killed",
            Self::KubeletRestarted => "kubelet restarted",
            Self::ContainerdRestarted => "containerd restarted",
            Self::ApiServerRestarted => "API server restarted",
        })
    }
}

/// Kills a container of a pod. Waits until it runs, because the edit may be replacing the pod.
async fn kill<Fut>(owner: &str, container: &str, pod: impl Fn() -> Fut) -> Result<(), Error>
where
    Fut: Future<Output = Result<Pod, Error>>,
{
    wait::until(format!("running container {container} of {owner}"), TIMEOUT, || async {
        let status = pod().await?.status.unwrap_or_default();
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        let is_running = |status: &ContainerStatus| {
            status.name == container && status.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        let id = all.into_iter().find(is_running).and_then(|status| status.container_id);
        let id = id.ok_or_else(|| Error::Other("container is not running".into()))?;
        kill_container(&id)
    })
    .await
}
