//! The measured programs: Outrigger, the peer (kube-rbac-proxy), and nginx, which does not authorize.

use std::net::SocketAddr;

use testbed::bench::{Build, usage};
use testbed::harness::raw_http::RawConnection;
use testbed::harness::wait;
use testbed::process::Process;
use testbed::{Error, process};

use crate::environment::{Environment, IGNORED_PATH, SOON};
use crate::load::Protocol;
use crate::nginx;

/// A running program; stopped on drop.
pub struct Contender {
    /// `ours`, `ours over a Unix socket`, `peer`, `nginx` or `direct`.
    pub name: &'static str,
    process: Option<Process>,
    plain: SocketAddr,
    http2: SocketAddr,
}

/// The name of our proxy with a Unix socket as upstream.
pub const OVER_UNIX_SOCKET: &str = "ours over a Unix socket";

impl Contender {
    /// Starts our proxy with a Unix socket as upstream.
    pub async fn over_unix_socket(ours: &Build, environment: &Environment) -> Result<Self, Error> {
        let upstream = format!("unix://{}", environment.upstream_socket.display());
        let contender = Self::start_with(ours, environment, &upstream).await?;
        Ok(Self { name: OVER_UNIX_SOCKET, ..contender })
    }

    /// Starts a program. Ours and the peer get the same flags: those of a node's pod, and no rate limit to
    /// the API server, which would be measured instead.
    pub async fn start(build: &Build, environment: &Environment) -> Result<Self, Error> {
        Self::start_with(build, environment, &format!("http://{}/", environment.upstream)).await
    }

    async fn start_with(build: &Build, environment: &Environment, upstream: &str) -> Result<Self, Error> {
        let [plain, http2] = environment.addresses();
        let process = if build.name == "nginx" {
            nginx::baseline(
                &environment.site,
                &build.program,
                &plain.to_string(),
                &http2.to_string(),
                &environment.upstream,
            )?
        } else {
            let user = environment.plane.user(build.name, Some("system:masters"))?;
            let program = process::Program::new(build.name, &build.program);
            let program = if build.name == "ours" { program.arg("proxy") } else { program };
            program
                .flag("insecure-listen-address", plain.to_string())
                .flag("upstream", upstream)
                .flag("config-file", &environment.config)
                .flag("ignore-paths", IGNORED_PATH)
                .flag("auth-header-fields-enabled", "true")
                .flag("kube-api-qps", "100000")
                .flag("kube-api-burst", "100000")
                .flag("kubeconfig", user.write_kubeconfig(environment.site.dir())?)
                .flag("v", "0")
                .start(&environment.site)?
        };
        wait::until(format!("{} to listen", build.name), SOON, || async {
            process.check_alive()?;
            RawConnection::connect(plain).await.map(drop)
        })
        .await?;
        let http2 = if build.name == "nginx" { http2 } else { plain };
        Ok(Self { name: build.name, process: Some(process), plain, http2 })
    }

    /// No proxy: the client talks to the upstream directly.
    pub fn direct(environment: &Environment) -> Self {
        let [plain, http2] = environment.upstream_addresses;
        Self { name: "direct", process: None, plain, http2 }
    }

    /// Returns whether it authorizes requests.
    pub fn authorizes(&self) -> bool {
        matches!(self.name, "ours" | "peer")
    }

    /// Returns its address.
    pub fn address(&self, protocol: Protocol) -> SocketAddr {
        match protocol {
            Protocol::Http1 => self.plain,
            Protocol::Http2 => self.http2,
        }
    }

    /// Returns the CPU time used so far, in seconds.
    pub fn cpu(&self) -> Result<f64, Error> {
        self.pid().map_or(Ok(0.0), |pid| usage::cpu_time(pid?).map(|used| used.as_secs_f64()))
    }

    /// Returns the resident memory in MB.
    pub fn memory(&self) -> Result<f64, Error> {
        self.pid().map_or(Ok(0.0), |pid| usage::rss_mb(pid?))
    }

    fn pid(&self) -> Option<Result<u32, Error>> {
        self.process.as_ref().map(|process| process.check_alive().and_then(|()| process.pid()))
    }
}
