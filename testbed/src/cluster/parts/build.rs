//! Building one Go module, with a word now and then for who waits.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Kubernetes, Part};
use crate::error::{Error, IoContext, Result};
use crate::harness::logs;
use crate::process::tool;

/// How often a running build says that it runs.
const BETWEEN_WORDS: Duration = Duration::from_secs(30);

/// The version that the Kubernetes programs report; without it they say v0.0.0-master.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// The module of OpenShift's kinds.
const OPENSHIFT_API: &str = "github.com/openshift/api";

/// How a part is built into a folder: everything beside the module's own files that decides what comes out.
#[derive(Debug)]
pub(super) struct Recipe {
    args: Vec<String>,
    environment: [(&'static str, &'static str); 3],
}

impl Recipe {
    /// One text that differs when the recipe does.
    pub(super) fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// The recipe of a part. Settings of the person who builds must not change what is built.
pub(super) fn recipe(part: Part, out: &Path) -> Recipe {
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
    if part == Part::Seid {
        // Its libraries are looked for beside it, in a pod's image as here.
        flags.push_str(" -extldflags=-Wl,-rpath,$ORIGIN/../lib");
    }
    let build = ["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o", &output, "."];
    let args = match part {
        // Only files of the module are wanted.
        Part::OpenShift => ["mod", "download", OPENSHIFT_API].map(String::from).to_vec(),
        _ => build.map(String::from).to_vec(),
    };
    let cgo = if part == Part::Seid { "1" } else { "0" };
    Recipe { args, environment: [("GOFLAGS", "-mod=readonly"), ("GOWORK", "off"), ("CGO_ENABLED", cgo)] }
}

fn program(part: Part) -> &'static str {
    match part {
        Part::Kubernetes => "kubernetes",
        Part::Dns => "coredns",
        Part::CertManager => "cert-manager",
        Part::S3 => "minio",
        Part::Seid => "seid",
        Part::OpenShift => "none",
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
    match part {
        Part::CertManager => copy_crds(module, "github.com/cert-manager/cert-manager", "deploy/crds", out)?,
        Part::OpenShift => {
            for group in ["operator/v1", "config/v1"] {
                copy_crds(module, OPENSHIFT_API, &format!("{group}/zz_generated.crd-manifests"), out)?;
            }
        }
        Part::Seid => copy_libraries(module, &out.join("lib"))?,
        Part::Kubernetes | Part::Dns | Part::S3 => {}
    }
    eprintln!("testbed: built {part} in {} s", begin.elapsed().as_secs());
    Ok(())
}

/// Keeps the CRDs of a dependency: the module cache that holds them may be emptied at any time.
fn copy_crds(module: &Path, dependency: &str, folder: &str, out: &Path) -> Result<()> {
    let from = module_folder(module, dependency)?.join(folder);
    copy_files(&from, &out.join("crds"), &|name| name.ends_with(".yaml")).map(drop)
}

/// Keeps seid's libraries beside it, for the same reason, and for images.
fn copy_libraries(module: &Path, out: &Path) -> Result<()> {
    let from = module_folder(module, "github.com/sei-protocol/sei-chain")?;
    let ending = format!(".{}.so", std::env::consts::ARCH);
    let copied = copy_files(&from, out, &|name| name.starts_with("libwasmvm") && name.ends_with(&ending))?;
    if copied == 0 {
        return Err(Error::Refused(format!("{} has no libwasmvm*{ending}", from.display())));
    }
    Ok(())
}

/// Where the module cache holds a dependency of a module.
fn module_folder(module: &Path, dependency: &str) -> Result<PathBuf> {
    let mut ask = Command::new("go");
    ask.args(["list", "-m", "-f", "{{.Dir}}", dependency]).current_dir(module);
    Ok(PathBuf::from(tool::output_of(ask)?.trim()))
}

/// Copies the files below a folder whose names are wanted into another, flat; returns how many.
fn copy_files(from: &Path, out: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<usize> {
    fs::create_dir_all(out).context(|| format!("creating {}", out.display()))?;
    let mut copied = 0;
    for entry in fs::read_dir(from).context(|| format!("reading {}", from.display()))?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copied += copy_files(&path, out, wanted)?;
        } else if wanted(&name.to_string_lossy()) {
            fs::copy(&path, out.join(&name)).context(|| format!("copying {}", path.display()))?;
            copied += 1;
        }
    }
    Ok(copied)
}

/// Runs `go` to its end.
fn go(part: Part, module: &Path, recipe: &Recipe, log: &Path) -> Result<()> {
    let output = File::create(log).context(|| format!("opening {}", log.display()))?;
    let errors = output.try_clone().context(|| format!("opening {}", log.display()))?;
    // Killed with us: a compiler that outlives its parent writes into a folder that somebody else has cleaned.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "go"])
        .args(&recipe.args)
        .current_dir(module)
        .envs(recipe.environment)
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
