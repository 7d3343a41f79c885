//! The sidecars that are measured: ours, and the one that it stands in for.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use testbed::Error;
use testbed::bench::Build;
use testbed::cluster::site::Site;
use testbed::process::{Process, Program};

use crate::load;

/// How long a start may take.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Between two looks whether it serves: a start is measured by them.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A process of one of them.
pub struct Running {
    process: Process,
    /// Where it listens.
    pub port: u16,
    _site: Arc<Site>,
}

/// Starts it on the home of a site, and returns when it serves. Both are given the same variables.
pub async fn start(contender: &Build, site: &Arc<Site>) -> Result<Running, Error> {
    let io = |what: &str| {
        let what = what.to_owned();
        move |source| Error::Io { what, source }
    };
    let home = site.dir().join("home");
    std::fs::create_dir_all(&home).map_err(io("making a home"))?;
    let port = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map_err(io("finding a port"))?
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
        .start(site)?;
    let running = Running { process, port, _site: site.clone() };
    let serves = async {
        while !load::serves(port).await {
            running.process.check_alive()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok::<_, Error>(())
    };
    let late = |_| Error::Deadline {
        what: "a sidecar that serves".into(),
        limit: STARTS_WITHIN,
        last: "it does not".into(),
    };
    tokio::time::timeout(STARTS_WITHIN, serves).await.map_err(late)??;
    Ok(running)
}

impl Running {
    /// Its number.
    pub fn pid(&self) -> Result<u32, Error> {
        self.process.pid()
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }
}
