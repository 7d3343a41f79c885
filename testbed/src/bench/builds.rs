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

/// What a program of ours says of itself, and what tells this build from others.
pub fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .context(|| format!("starting {}", program.display()))?;
    Ok(format!("{} {}", String::from_utf8_lossy(&output.stdout).trim(), digest(program)?))
}

/// What tells one build from another.
pub fn digest(program: &Path) -> Result<String> {
    let bytes = std::fs::read(program).context(|| format!("reading {}", program.display()))?;
    let digest: String = Sha256::digest(bytes)[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digest}"))
}
