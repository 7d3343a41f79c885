//! Programs of Debian that take part: who forwards without authorizing, and who asks.

use std::path::PathBuf;
use std::process::Command;

use testbed::Error;
use testbed::bench::Build;

/// Where programs are looked for.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// The programs.
pub struct Tools {
    /// Serves as upstream, and as the ceiling.
    pub nginx: PathBuf,
    /// Asks, over both versions of HTTP. It is written in C++ and takes less time for a request than any proxy.
    pub h2load: PathBuf,
}

impl Tools {
    /// Finds them, or says how to get them.
    pub fn find() -> Result<Self, Error> {
        let find = |name: &str| {
            FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.is_file())
        };
        match (find("nginx"), find("h2load")) {
            (Some(nginx), Some(h2load)) => Ok(Self { nginx, h2load }),
            (nginx, h2load) => {
                let missing = [nginx.is_none().then_some("nginx"), h2load.is_none().then_some("h2load")];
                let missing = missing.into_iter().flatten().collect::<Vec<_>>().join(" and ");
                Err(Error::Refused(format!(
                    "{missing} missing: apt-get install --no-install-recommends nginx-light nghttp2-client (nginx need not run)"
                )))
            }
        }
    }

    /// nginx, as one who is measured.
    pub fn ceiling(&self) -> Result<Build, Error> {
        let output = Command::new(&self.nginx)
            .arg("-v")
            .output()
            .map_err(|source| Error::Io { what: "starting nginx".into(), source })?;
        let version = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(Build { name: "nginx", version, program: self.nginx.clone() })
    }
}
