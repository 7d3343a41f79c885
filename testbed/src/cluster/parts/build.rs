//! Builds Go modules and reports progress.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Kubernetes, Part};
use crate::error::{Error, IoContext, Result};
use crate::harness::logs;
use crate::process::tool;

/// Interval of progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// Version reported by the Kubernetes programs; v0.0.0-master if unset.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// Module with the CRDs of OpenShift.
const OPENSHIFT_API: &str = "github.com/openshift/api";

/// Build command of a part. Part of its cache key, together with the files of its module.
#[derive(Debug)]
pub(super) struct Recipe {
    args: Vec<String>,
    environment: [(&'static str, &'static str); 3],
}

impl Recipe {
    /// Returns the text that is hashed into the cache key.
    pub(super) fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Returns the build command of a part. User settings must not affect the result.
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
        // seid finds its libraries relative to its own path, also in images.
        flags.push_str(" -extldflags=-Wl,-rpath,$ORIGIN/../lib");
    }
    let build = ["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o", &output, "."];
    let args = match part {
        // Only files of the module are needed.
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

/// Builds a part into `out`; the compiler writes to `log`.
pub(super) fn build(part: Part, module: &Path, out: &Path, log: &Path) -> Result<()> {
    eprintln!(
        "testbed: building {part} (once; usually {}); its log is {}",
        part.typical_build_time(),
        log.display()
    );
    let begin = Instant::now();
    run_go(part, module, &recipe(part, out), log)?;
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

/// Copies the CRDs of a dependency, because the module cache may be cleared at any time.
fn copy_crds(module: &Path, dependency: &str, subdir: &str, out: &Path) -> Result<()> {
    let from = module_dir(module, dependency)?.join(subdir);
    copy_files(&from, &out.join("crds"), &|name| name.ends_with(".yaml")).map(drop)
}

/// Copies the libraries of seid, for the same reason and for images.
fn copy_libraries(module: &Path, out: &Path) -> Result<()> {
    let from = module_dir(module, "github.com/sei-protocol/sei-chain")?;
    let ending = format!(".{}.so", std::env::consts::ARCH);
    let copied = copy_files(&from, out, &|name| name.starts_with("libwasmvm") && name.ends_with(&ending))?;
    if copied == 0 {
        return Err(Error::Other(format!("{} contains no libwasmvm*{ending}", from.display())));
    }
    Ok(())
}

/// Returns the directory of a dependency in the module cache.
fn module_dir(module: &Path, dependency: &str) -> Result<PathBuf> {
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", dependency]).current_dir(module);
    Ok(PathBuf::from(tool::output_of(list)?.trim()))
}

/// Copies all matching files below `from` into `out`, without subdirectories, and returns their number.
fn copy_files(from: &Path, out: &Path, matches: &dyn Fn(&str) -> bool) -> Result<usize> {
    fs::create_dir_all(out).context(|| format!("creating {}", out.display()))?;
    let mut copied = 0;
    for entry in fs::read_dir(from).context(|| format!("reading {}", from.display()))?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copied += copy_files(&path, out, matches)?;
        } else if matches(&name.to_string_lossy()) {
            fs::copy(&path, out.join(&name)).context(|| format!("copying {}", path.display()))?;
            copied += 1;
        }
    }
    Ok(copied)
}

/// Runs `go` and prints progress.
fn run_go(part: Part, module: &Path, recipe: &Recipe, log: &Path) -> Result<()> {
    let output = File::create(log).context(|| format!("opening {}", log.display()))?;
    let errors = output.try_clone().context(|| format!("opening {}", log.display()))?;
    // Killed with this process: otherwise the compiler would write to a directory that another process has cleaned up.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "go"])
        .args(&recipe.args)
        .current_dir(module)
        .envs(recipe.environment)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .context(|| "starting go (Go 1.26 or newer is required)".to_owned())?;
    let begin = Instant::now();
    let (done, is_done) = mpsc::channel::<()>();
    let progress = std::thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(PROGRESS_INTERVAL) {
            eprintln!(
                "testbed: building {part}: {} s so far (usually {})",
                begin.elapsed().as_secs(),
                part.typical_build_time()
            );
        }
    });
    let status = child.wait().context(|| "waiting for go".to_owned())?;
    drop(done);
    // The thread only prints; a panic is already printed.
    let _ = progress.join();
    if status.success() {
        return Ok(());
    }
    Err(Error::Build { part: part.name(), log: log.to_owned(), tail: logs::tail(log, 20) })
}
