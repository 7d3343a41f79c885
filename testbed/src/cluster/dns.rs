//! Cluster DNS: a real CoreDNS next to the control plane.

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

/// Domain of all clusters.
pub const CLUSTER_DOMAIN: &str = "cluster.local";

const PORT: u16 = 53;

/// Timeout for filling its caches.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running DNS server, which kubelets configure in every pod; stopped on drop.
#[derive(Debug)]
pub struct Dns {
    process: Process,
    _site: Arc<Site>,
}

impl Dns {
    /// Starts CoreDNS next to a control plane and returns when it resolves cluster names.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
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
        // Queried like from a pod: CoreDNS may fail to open its readiness port without reporting an error.
        let name = format!("kubernetes.default.svc.{CLUSTER_DOMAIN}");
        wait::until("CoreDNS to resolve cluster names", READY_WITHIN, || async {
            started.check_alive()?;
            probe::dns_resolves((address, PORT).into(), &name).await
        })
        .await?;
        Ok(started)
    }

    /// Fails if the process has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.process.check_alive()
    }
}

/// Names outside the cluster get NXDOMAIN: no query leaves this machine. The short TTL makes changes visible to tests
/// quickly.
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
