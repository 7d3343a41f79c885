//! Binaries under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::error::{Error, IoContext, Result};

/// Returns our binary of the release profile, in the target directory of this program. Other profiles would give misleading
/// results.
pub fn release_binary() -> Result<PathBuf> {
    let running = std::env::current_exe().context(|| "finding the path of this program".into())?;
    let found = running.ancestors().map(|dir| dir.join("release/outrigger")).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Other(
            "release binary not found: run cargo build --locked --release --package outrigger".into(),
        )
    })
}

/// A binary under test.
#[derive(Debug)]
pub struct Build {
    /// `ours`, `peer`, or the name of another implementation.
    pub name: &'static str,
    /// Version or digest.
    pub version: String,
    /// Path.
    pub program: PathBuf,
}

impl Build {
    /// Returns our release binary.
    pub fn ours() -> Result<Self> {
        let program = release_binary()?;
        Ok(Self { name: "ours", version: version(&program)?, program })
    }

    /// Returns the binary named by an environment variable; prints a hint if it is not set.
    pub fn peer(variable: &str, description: &str) -> Result<Option<Self>> {
        let Some(program) = std::env::var_os(variable).map(PathBuf::from) else {
            println!("No peer: set {variable} to {description} to compare it with ours.");
            return Ok(None);
        };
        Ok(Some(Self { name: "peer", version: digest(&program)?, program }))
    }
}

/// Returns the output of `--version` and the digest.
fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .context(|| format!("starting {}", program.display()))?;
    Ok(format!("{} {}", String::from_utf8_lossy(&output.stdout).trim(), digest(program)?))
}

/// Returns a short digest of the binary.
fn digest(program: &Path) -> Result<String> {
    let bytes = std::fs::read(program).context(|| format!("reading {}", program.display()))?;
    let digest: String = Sha256::digest(bytes)[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digest}"))
}
