//! Building one Go module, with a word now and then for who waits.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Kubernetes, Part};
use crate::error::{Error, IoContext, Result};
use crate::{logs, tool};

/// How often a running build says that it runs.
const BETWEEN_WORDS: Duration = Duration::from_secs(30);

/// The version that the Kubernetes programs report; without it they say v0.0.0-master.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// The arguments of `go` that build a part into a folder.
pub(super) fn recipe(part: Part, out: &Path) -> Vec<String> {
    let output = out.join("bin").join(program(part)).display().to_string();
    let mut flags = String::from("-s -w");
    if part == Part::Kubernetes {
        for (variable, value) in [
            ("k8s.io/component-base/version.gitVersion", KUBERNETES_VERSION),
            ("k8s.io/component-base/version.gitMajor", "1"),
            ("k8s.io/component-base/version.gitMinor", "36"),
            ("k8s.io/client-go/pkg/version.gitVersion", KUBERNETES_VERSION),
        ] {
            flags.push_str(&format!(" -X {variable}={value}"));
        }
    }
    ["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o", &output, "."]
        .map(String::from)
        .to_vec()
}

fn program(part: Part) -> &'static str {
    match part {
        Part::Kubernetes => "kubernetes",
        Part::Dns => "coredns",
        Part::CertManager => "cert-manager",
        Part::S3 => "minio",
        Part::Seid => "seid",
    }
}

/// Builds a part into `out`; what the compiler says is in `log`.
pub(super) fn build(part: Part, module: &Path, out: &Path, log: &Path) -> Result<()> {
    eprintln!(
        "testbed: building {part} (once; usually {}); its log is {}",
        part.usual_build(),
        log.display()
    );
    let begin = Instant::now();
    go(part, module, &recipe(part, out), log)?;
    if part == Part::Kubernetes {
        for name in Kubernetes::PROGRAMS {
            let link = out.join("bin").join(name);
            std::os::unix::fs::symlink(program(part), &link)
                .context(|| format!("linking {}", link.display()))?;
        }
    }
    if part == Part::CertManager {
        copy_crds(module, &out.join("crds"))?;
    }
    eprintln!("testbed: built {part} in {} s", begin.elapsed().as_secs());
    Ok(())
}

/// Keeps cert-manager's CRDs beside its program: the module cache that holds them may be emptied at any time.
fn copy_crds(module: &Path, out: &Path) -> Result<()> {
    let mut ask = Command::new("go");
    ask.args(["list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager"]).current_dir(module);
    let from = Path::new(tool::output_of(ask)?.trim()).join("deploy/crds");
    fs::create_dir_all(out).context(|| format!("making {}", out.display()))?;
    let entries = fs::read_dir(&from).context(|| format!("reading {}", from.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|kind| kind == "yaml")) {
            fs::copy(&path, out.join(name)).context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}

/// Runs `go` to its end. Settings of the person who builds must not change what is built.
fn go(part: Part, module: &Path, args: &[String], log: &Path) -> Result<()> {
    let output = File::create(log).context(|| format!("opening {}", log.display()))?;
    let errors = output.try_clone().context(|| format!("opening {}", log.display()))?;
    // Killed with us: a compiler that outlives its parent writes into a folder that somebody else has cleaned.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "go"])
        .args(args)
        .current_dir(module)
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .context(|| "starting go (is it installed? version 1.26 or newer is needed)".to_owned())?;
    let begin = Instant::now();
    let (ended, end) = mpsc::channel::<()>();
    let talker = std::thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(BETWEEN_WORDS) {
            eprintln!(
                "testbed: building {part}: {} s so far (usually {})",
                begin.elapsed().as_secs(),
                part.usual_build()
            );
        }
    });
    let status = child.wait().context(|| "waiting for go".to_owned())?;
    drop(ended);
    // It only prints: a panic of its own has been printed too.
    let _ = talker.join();
    if status.success() {
        return Ok(());
    }
    Err(Error::Build { part: part.name(), log: log.to_owned(), tail: logs::tail(log, 20) })
}
