//! The test binaries of the workspace, as cargo lists them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testbed::{Error, Result};

/// Binaries that take too long for every change, with the command that runs them.
const SEPARATE: [(&str, &str); 2] = [("cli/partition", "make partition"), ("cli/policy", "make e2e")];

/// One test binary.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Package and target, such as `operator/sweep`.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// The directory of its package, where cargo would run it.
    pub package: PathBuf,
}

impl Binary {
    /// Returns the file that its output is written to.
    pub fn log(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.log", self.name.replace(['/', ' '], "-")))
    }
}

/// Compiles the tests and lists their binaries.
pub fn compile_and_list() -> Result<Vec<Binary>> {
    let listed = Command::new("cargo")
        .args(["test", "--locked", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output();
    let listed = listed.map_err(|source| Error::Io { what: "running cargo".into(), source })?;
    if !listed.status.success() {
        return Err(Error::Other("cargo failed to compile the tests: see above".into()));
    }
    let text = String::from_utf8_lossy(&listed.stdout);
    let command = |binary: &Binary| SEPARATE.iter().find(|(name, _)| binary.name == *name);
    let (separate, binaries): (Vec<Binary>, Vec<Binary>) =
        text.lines().filter_map(parse).partition(|binary| command(binary).is_some());
    for (name, command) in separate.iter().filter_map(command) {
        println!("-- {name} has its own command: {command}");
    }
    if binaries.is_empty() {
        return Err(Error::Other("cargo listed no test binary".into()));
    }
    Ok(binaries)
}

/// Parses one line of cargo's JSON output; `None` if it does not describe a test binary.
fn parse(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package_name = package.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = if kind == "test" {
        format!("{package_name}/{target}")
    } else {
        format!("{package_name}/{kind} {target}")
    };
    Some(Binary { name, program: message["executable"].as_str()?.into(), package })
}
