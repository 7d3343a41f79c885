//! What goes wrong.

use std::fmt;

use api::names::{container, lease, object};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::Api;
use testbed::cluster::kubectl;
use testbed::cluster::node::kill_container;
use testbed::demo::platform::{FULL_NODE, NAMESPACE, OPERATOR, VALIDATOR};
use testbed::demo::sei_nodes::{SOON, SeiNodes};
use testbed::harness::wait;
use testbed::{Error, Node};

/// One thing that goes wrong.
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

    /// Makes it happen to whom chance chooses, and says to whom it did.
    pub async fn happen(self, nodes: &SeiNodes<'_>, chance: &mut Rng) -> Result<String, Error> {
        let node = if chance.bool() { VALIDATOR } else { FULL_NODE };
        let machines = nodes.platform().cluster().nodes();
        let machine: &Node = &machines[chance.usize(..machines.len())];
        match self {
            Self::PodDeleted => {
                let pod = object::pod(node);
                // It may be gone already: the edit replaces it too.
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
                Ok("the leader".to_owned())
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
                Ok("the only one".to_owned())
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

/// Kills a container of a pod, as soon as there is one: the edit may be replacing the pod.
async fn kill<Fut>(whose: &str, container: &str, pod: impl Fn() -> Fut) -> Result<(), Error>
where
    Fut: Future<Output = Result<Pod, Error>>,
{
    wait::until(format!("a running {container} of {whose}, to be killed"), SOON, || async {
        let status = pod().await?.status.unwrap_or_default();
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        let runs = |one: &ContainerStatus| {
            one.name == container && one.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        let id = all.into_iter().find(runs).and_then(|one| one.container_id);
        let id = id.ok_or_else(|| Error::Refused("it does not run".into()))?;
        kill_container(&id)
    })
    .await
}
