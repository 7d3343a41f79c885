//! The kubelet of a node.

use std::net::IpAddr;

use serde_json::json;

use super::machine::{Machine, RESOLVER};
use super::{Place, Pool, containerd};
use crate::cluster::cgroup;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::dns::CLUSTER_DOMAIN;
use crate::cluster::pki::ServerNames;
use crate::error::Result;
use crate::process::{Process, Program};

/// Starts it.
pub(super) fn start(
    place: &Place,
    machine: &Machine,
    plane: &ControlPlane,
    pool: Option<Pool>,
) -> Result<Process> {
    let user = plane.user(&format!("system:node:{}", place.name), Some("system:nodes"))?;
    let names = ServerNames { dns: vec![place.name.clone()], addresses: vec![IpAddr::from(place.address)] };
    plane.authority().server(&place.name, &names)?.write(place.dir(), "kubelet")?;
    place.write("ca.crt", plane.authority().pem())?;
    let mut program = Program::new(place.log_name("kubelet"), plane.kubernetes().program("kubelet"))
        .flag("config", place.write("kubelet.json", &configuration(place)?)?)
        .flag("kubeconfig", user.write_kubeconfig(place.dir())?)
        .flag("hostname-override", &place.name)
        .flag("node-ip", place.address.to_string())
        .flag("root-dir", place.folder("kubelet")?)
        .flag("cert-dir", place.folder("kubelet-certificates")?);
    if let Some(Pool { name, label, taint }) = pool {
        program = program
            .flag("node-labels", format!("{label}={name}"))
            .flag("register-with-taints", format!("{taint}={name}:NoSchedule"));
    }
    machine.program(program).start(place.site())
}

fn configuration(place: &Place) -> Result<String> {
    let file = |name: &str| place.dir().join(name).display().to_string();
    let dns = place.site().addresses().control_plane();
    Ok(json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": file("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": file("kubelet.crt"),
        "tlsPrivateKeyFile": file("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        "staticPodPath": place.folder("static-pods")?,
        "volumePluginDir": place.folder("volume-plugins")?,
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [dns],
        // Not the machine's: its servers are nobody that a test may ask.
        "resolvConf": file(RESOLVER),
        "cgroupRoot": cgroup::root_of_node(place.site().number(), place.number()),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        // The disk is the whole machine's: a test must not be evicted because it is nearly full.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "imageGCHighThresholdPercent": 100,
        // Changes are seen at once, where the default is a minute.
        "syncFrequency": "10s",
        "fileCheckFrequency": "1s",
        "nodeStatusUpdateFrequency": "5s",
        "registerNode": true,
        "shutdownGracePeriod": "0s",
    })
    .to_string())
}
