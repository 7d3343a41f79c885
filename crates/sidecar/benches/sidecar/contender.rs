//! Starts the measured sidecars: ours and upstream's.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use testbed::Error;
use testbed::bench::Build;
use testbed::cluster::site::Site;
use testbed::process::{Process, Program};

use crate::load;

/// Timeout of a start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two checks whether it serves; the resolution of the start measurement.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running sidecar.
pub struct Running {
    process: Process,
    /// Port of the API.
    pub port: u16,
    _site: Arc<Site>,
}

/// Starts a sidecar on the home of a site and waits until it serves. Both programs get the same variables.
pub async fn start(contender: &Build, site: &Arc<Site>) -> Result<Running, Error> {
    let io = |what: &str| {
        let what = what.to_owned();
        move |source| Error::Io { what, source }
    };
    let home = site.dir().join("home");
    std::fs::create_dir_all(&home).map_err(io("creating the home"))?;
    let port = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map_err(io("finding a free port"))?
        .port();
    let process = Program::new("sidecar", &contender.program)
        .arg(if contender.name == "ours" { "sidecar" } else { "serve" })
        .env("SEI_HOME", &home)
        .env("SEI_CHAIN_ID", "bench-1")
        .env("SEI_GENESIS_BUCKET", "genesis")
        .env("SEI_GENESIS_REGION", "us-east-1")
        .env("SEI_SNAPSHOT_BUCKET", "snapshots")
        .env("SEI_SNAPSHOT_REGION", "us-east-1")
        .env("SEI_SIDECAR_PORT", port.to_string())
        .env("SEI_SIDECAR_AUTHN_MODE", "unauthenticated")
        .start(site)?;
    let running = Running { process, port, _site: site.clone() };
    let serves = async {
        while !load::serves(port).await {
            running.process.check_alive()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok::<_, Error>(())
    };
    let late = |_| Error::Deadline {
        what: "the sidecar to serve".into(),
        limit: START_TIMEOUT,
        last: "not serving".into(),
    };
    tokio::time::timeout(START_TIMEOUT, serves).await.map_err(late)??;
    Ok(running)
}

impl Running {
    /// Returns the process ID.
    pub fn pid(&self) -> Result<u32, Error> {
        self.process.pid()
    }

    /// Kills the process and waits for its exit.
    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }
}
