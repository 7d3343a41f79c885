//! The programs that are measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::error::{Error, IoContext, Result};

/// Our binary of the release profile, which is built beside the profile of this program. Figures of another build would be those
/// of a program that nobody runs.
pub fn released() -> Result<PathBuf> {
    let running = std::env::current_exe().context(|| "finding our own program".into())?;
    let found =
        running.ancestors().map(|folder| folder.join("release/outrigger")).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Refused(
            "outrigger is not built as it is released: cargo build --release --package outrigger".into(),
        )
    })
}

/// A program that is measured.
#[derive(Debug)]
pub struct Build {
    /// Whose it is: `ours`, `peer`, or whose else.
    pub name: &'static str,
    /// Its version, or what else tells one build from another.
    pub version: String,
    /// Where it is.
    pub program: PathBuf,
}

impl Build {
    /// Ours, as it is released.
    pub fn ours() -> Result<Self> {
        let program = released()?;
        Ok(Self { name: "ours", version: version(&program)?, program })
    }

    /// The one that a variable names; if it names none, that it could name such is said.
    pub fn peer(variable: &str, such: &str) -> Result<Option<Self>> {
        let Some(program) = std::env::var_os(variable).map(PathBuf::from) else {
            println!("No peer: set {variable} to {such} to see its figures beside ours.");
            return Ok(None);
        };
        Ok(Some(Self { name: "peer", version: digest(&program)?, program }))
    }
}

/// What a program of ours says of itself, and what tells this build from others.
fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .context(|| format!("starting {}", program.display()))?;
    Ok(format!("{} {}", String::from_utf8_lossy(&output.stdout).trim(), digest(program)?))
}

/// What tells one build from another.
fn digest(program: &Path) -> Result<String> {
    let bytes = std::fs::read(program).context(|| format!("reading {}", program.display()))?;
    let digest: String = Sha256::digest(bytes)[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digest}"))
}
