//! Those who are measured: ours, the program that it stands in for, and nginx, which authorizes nothing.

use std::net::SocketAddr;

use testbed::bench::{Build, usage};
use testbed::harness::wait;
use testbed::harness::wire::Wire;
use testbed::process::Process;
use testbed::{Error, process};

use crate::load::Protocol;
use crate::nginx;
use crate::world::{OPEN, SOON, World};

/// A running one; ended when dropped.
pub struct Contender {
    /// Whose it is.
    pub name: &'static str,
    process: Option<Process>,
    plain: SocketAddr,
    http2: SocketAddr,
}

impl Contender {
    /// Starts it. Ours and the peer are given the same flags: those of a node's pod, and no limit of questions to the API server,
    /// which would be measured otherwise.
    pub async fn start(build: &Build, world: &World) -> Result<Self, Error> {
        let [plain, http2] = world.addresses();
        let process = if build.name == "nginx" {
            nginx::ceiling(
                &world.site,
                &build.program,
                &plain.to_string(),
                &http2.to_string(),
                &world.upstream,
            )?
        } else {
            let user = world.plane.user(build.name, Some("system:masters"))?;
            let program = process::Program::new(build.name, &build.program);
            let program = if build.name == "ours" { program.arg("proxy") } else { program };
            program
                .flag("insecure-listen-address", plain.to_string())
                .flag("upstream", format!("http://{}/", world.upstream))
                .flag("config-file", &world.config)
                .flag("ignore-paths", OPEN)
                .flag("auth-header-fields-enabled", "true")
                .flag("kube-api-qps", "100000")
                .flag("kube-api-burst", "100000")
                .flag("kubeconfig", user.write_kubeconfig(world.site.dir())?)
                .flag("v", "0")
                .start(&world.site)?
        };
        wait::until(format!("{} to listen", build.name), SOON, || async {
            process.check_alive()?;
            Wire::connect(plain).await.map(drop)
        })
        .await?;
        let http2 = if build.name == "nginx" { http2 } else { plain };
        Ok(Self { name: build.name, process: Some(process), plain, http2 })
    }

    /// Nobody between client and upstream.
    pub fn nobody(world: &World) -> Self {
        let [plain, http2] = world.of_upstream;
        Self { name: "nobody", process: None, plain, http2 }
    }

    /// Whether it looks at who asks.
    pub fn authorizes(&self) -> bool {
        matches!(self.name, "ours" | "peer")
    }

    /// Where it listens.
    pub fn address(&self, protocol: Protocol) -> SocketAddr {
        match protocol {
            Protocol::Http1 => self.plain,
            Protocol::Http2 => self.http2,
        }
    }

    /// Seconds of processor time so far.
    pub fn cpu(&self) -> Result<f64, Error> {
        self.pid().map_or(Ok(0.0), |pid| usage::cpu(pid?).map(|used| used.as_secs_f64()))
    }

    /// Resident memory in MB.
    pub fn memory(&self) -> Result<f64, Error> {
        self.pid().map_or(Ok(0.0), |pid| usage::memory(pid?))
    }

    fn pid(&self) -> Option<Result<u32, Error>> {
        self.process.as_ref().map(|process| process.check_alive().and_then(|()| process.pid()))
    }
}
