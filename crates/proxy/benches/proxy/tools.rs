//! Debian programs used by the benchmark.

use std::path::PathBuf;
use std::process::Command;

use testbed::Error;
use testbed::bench::Build;

/// Directories searched for programs.
const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// The programs.
pub struct Tools {
    /// Upstream and baseline proxy.
    pub nginx: PathBuf,
    /// Load generator for both HTTP versions. Written in C++, it needs less CPU time per request than any
    /// proxy.
    pub h2load: PathBuf,
}

impl Tools {
    /// Finds the programs; the error states how to install them.
    pub fn find() -> Result<Self, Error> {
        let find = |name: &str| {
            DIRECTORIES
                .iter()
                .map(|directory| PathBuf::from(directory).join(name))
                .find(|path| path.is_file())
        };
        match (find("nginx"), find("h2load")) {
            (Some(nginx), Some(h2load)) => Ok(Self { nginx, h2load }),
            (nginx, h2load) => {
                let missing = [nginx.is_none().then_some("nginx"), h2load.is_none().then_some("h2load")];
                let missing = missing.into_iter().flatten().collect::<Vec<_>>().join(" and ");
                Err(Error::Other(format!(
                    "{missing} not found: run apt-get install --no-install-recommends nginx-light nghttp2-client (nginx need not be running)"
                )))
            }
        }
    }

    /// Returns nginx as a measured program.
    pub fn baseline(&self) -> Result<Build, Error> {
        let output = Command::new(&self.nginx)
            .arg("-v")
            .output()
            .map_err(|source| Error::Io { what: "starting nginx".into(), source })?;
        let version = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(Build { name: "nginx", version, program: self.nginx.clone() })
    }
}
