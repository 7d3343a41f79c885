//! Names for pods: a real CoreDNS beside the control plane.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::parts::Part;
use crate::cluster::site::Site;
use crate::error::{IoContext, Result};
use crate::harness::wait;
use crate::process::probe;
use crate::process::{Process, Program};

/// The domain of every cluster here.
pub const CLUSTER_DOMAIN: &str = "cluster.local";

const PORT: u16 = 53;

/// How long it may take to fill its caches.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running DNS server, which the kubelets give to every pod; it ends when dropped.
#[derive(Debug)]
pub struct Dns {
    process: Process,
    _site: Arc<Site>,
}

impl Dns {
    /// Starts it beside a control plane and returns when it knows the cluster's names.
    pub async fn on(plane: &ControlPlane) -> Result<Self> {
        let site = plane.site();
        let program = Part::Dns.ensure()?.join("bin/coredns");
        let user = plane.user("coredns", Some("system:masters"))?;
        let kubeconfig = user.write_kubeconfig(site.dir())?;
        let address = site.addresses().control_plane();
        let corefile = site.dir().join("Corefile");
        fs::write(&corefile, configuration(address, &kubeconfig.display().to_string()))
            .context(|| format!("writing {}", corefile.display()))?;
        let process = Program::new("coredns", program)
            .arg("-conf")
            .arg(&corefile)
            .in_netns(site.netns())
            .start(site)?;
        let started = Self { process, _site: site.clone() };
        // Asked as a pod asks: the port on which CoreDNS says that it is ready may be missing without an error of its.
        let name = format!("kubernetes.default.svc.{CLUSTER_DOMAIN}");
        wait::until("a DNS server that knows the cluster's names", READY_WITHIN, || async {
            started.check_alive()?;
            probe::name_known((address, PORT).into(), &name).await
        })
        .await?;
        Ok(started)
    }

    /// Fails when it has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        self.process.check_alive()
    }
}

/// Names that are not the cluster's are answered with "no such name": nothing is ever asked outside this machine. A
/// short life of answers lets a test see a changed name soon.
fn configuration(address: Ipv4Addr, kubeconfig: &str) -> String {
    format!(
        "\
.:{PORT} {{
    bind {address}
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
    cache 1
}}
"
    )
}
