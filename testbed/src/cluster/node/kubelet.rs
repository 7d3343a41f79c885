//! Kubelet of a node.

use std::net::IpAddr;

use serde_json::json;

use super::namespaces::{NodeNamespaces, RESOLVER};
use super::{NodeLayout, Pool, containerd};
use crate::cluster::cgroup;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::dns::CLUSTER_DOMAIN;
use crate::cluster::pki::ServerNames;
use crate::error::Result;
use crate::process::{Process, Program};

/// Starts the kubelet.
pub(super) fn start(
    layout: &NodeLayout,
    namespaces: &NodeNamespaces,
    plane: &ControlPlane,
    pool: Option<Pool>,
) -> Result<Process> {
    let user = plane.user(&format!("system:node:{}", layout.name), Some("system:nodes"))?;
    let names = ServerNames { dns: vec![layout.name.clone()], addresses: vec![IpAddr::from(layout.address)] };
    plane.ca().issue_server(&layout.name, &names)?.write(layout.dir(), "kubelet")?;
    layout.write("ca.crt", plane.ca().pem())?;
    let mut program = Program::new(layout.log_name("kubelet"), plane.kubernetes().program("kubelet"))
        .flag("config", layout.write("kubelet.json", &configuration(layout)?)?)
        .flag("kubeconfig", user.write_kubeconfig(layout.dir())?)
        .flag("hostname-override", &layout.name)
        .flag("node-ip", layout.address.to_string())
        .flag("root-dir", layout.create_dir("kubelet")?)
        .flag("cert-dir", layout.create_dir("kubelet-certificates")?);
    if let Some(Pool { name, label, taint }) = pool {
        program = program
            .flag("node-labels", format!("{label}={name}"))
            .flag("register-with-taints", format!("{taint}={name}:NoSchedule"));
    }
    namespaces.program(program).start(layout.site())
}

fn configuration(layout: &NodeLayout) -> Result<String> {
    let file = |name: &str| layout.dir().join(name).display().to_string();
    let dns = layout.site().addresses().control_plane();
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
        "staticPodPath": layout.create_dir("static-pods")?,
        "volumePluginDir": layout.create_dir("volume-plugins")?,
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [dns],
        // Not the resolv.conf of the machine: tests must not query its DNS servers.
        "resolvConf": file(RESOLVER),
        "cgroupRoot": cgroup::root_of_node(layout.site().number(), layout.number()),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        // The disk is shared by the whole machine: pods must not be evicted because it is nearly full.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "imageGCHighThresholdPercent": 100,
        // The default is one minute.
        "syncFrequency": "10s",
        "fileCheckFrequency": "1s",
        "nodeStatusUpdateFrequency": "5s",
        "registerNode": true,
        "shutdownGracePeriod": "0s",
    })
    .to_string())
}
