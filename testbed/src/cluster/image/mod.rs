//! Container images of programs of this machine, written without Docker and without a registry.

mod archive;
mod libraries;

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::cluster::parts::Part;
use crate::error::{IoContext, Result};
use crate::harness::binaries;
use crate::sync::lock;

/// Symlinks to our binary, whose name selects its behavior.
const LINKS: [(&str, &str); 2] = [("kube-rbac-proxy", "outrigger"), ("seictl", "outrigger")];

/// Numeric user and group of our binary, so that the kubelet can verify `runAsNonRoot`.
const NONROOT: &str = "65532:65532";

/// Serializes archive writes, so that no partial archive is read.
static WRITE_LOCK: Mutex<()> = Mutex::new(());

/// An image without a base: names with their entrypoints, files and symlinks.
#[derive(Clone, Debug)]
pub struct Image {
    names: Vec<(String, Vec<String>)>,
    files: Vec<File>,
    links: Vec<(&'static str, &'static str)>,
    env: Vec<(&'static str, &'static str)>,
    /// Default user; root if `None`.
    user: Option<&'static str>,
    is_compressed: bool,
}

/// A program or library of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    /// Path in the image, without the leading slash.
    to: String,
    /// Path on this machine.
    from: PathBuf,
}

impl File {
    /// Puts a program into `/bin`.
    fn program(from: PathBuf) -> Self {
        Self { to: format!("bin/{}", from.file_name().unwrap_or_default().display()), from }
    }
}

impl Image {
    /// Returns the Outrigger image for tests, which also contains `testbed-pod`.
    pub fn outrigger() -> Result<Self> {
        let programs = [binaries::path("outrigger")?, binaries::path("testbed-pod")?];
        Ok(Self { user: Some(NONROOT), ..Self::from_binaries(names("dev"), programs, false) })
    }

    /// Returns the Outrigger release image, which contains only this binary.
    #[must_use]
    pub fn released(program: PathBuf) -> Self {
        Self { user: Some(NONROOT), ..Self::from_binaries(names(env!("CARGO_PKG_VERSION")), [program], true) }
    }

    /// Returns the image of a fake KMS plugin that accepts the arguments of the Vault plugin.
    pub fn kms_plugin() -> Result<Self> {
        let name = "outrigger.dev/testbed-kms-plugin:dev".into();
        let entrypoint = vec!["/bin/testbed-pod".into(), "kms-plugin".into(), "--".into()];
        let programs = [binaries::path("testbed-pod")?];
        Ok(Self { links: Vec::new(), ..Self::from_binaries(vec![(name, entrypoint)], programs, false) })
    }

    /// Returns the pause image.
    pub(crate) fn pause() -> Result<Self> {
        let name = "outrigger.dev/testbed-pause:dev".into();
        let entrypoint = vec!["/bin/testbed-pod".into(), "pause".into()];
        let programs = [binaries::path("testbed-pod")?];
        Ok(Self { links: Vec::new(), ..Self::from_binaries(vec![(name, entrypoint)], programs, false) })
    }

    /// Returns the image of a fake cosmos-exporter, which listens on its port and exports nothing.
    pub fn cosmos_exporter() -> Result<Self> {
        let name = "outrigger.dev/testbed-cosmos-exporter:dev".into();
        let entrypoint = vec!["/bin/testbed-pod".into(), "exporter".into(), "--".into()];
        let programs = [binaries::path("testbed-pod")?];
        Ok(Self { links: Vec::new(), ..Self::from_binaries(vec![(name, entrypoint)], programs, false) })
    }

    /// Returns the image of a real seid: seid and its libraries, and the shell and the programs of this machine that the
    /// scripts of node pods use.
    pub fn seid(tag: &str) -> Result<Self> {
        let seid = Part::Seid.ensure()?;
        let mut programs = vec![seid.join("bin/seid")];
        programs.extend(["bash", "mkdir", "mv", "sleep"].map(|name| PathBuf::from(format!("/bin/{name}"))));
        let mut files = libraries::required_by(&programs)?;
        files.extend(programs.into_iter().map(File::program));
        files.sort();
        files.dedup();
        Ok(Self {
            names: vec![(format!("outrigger.dev/testbed-seid:{tag}"), vec!["/bin/seid".into()])],
            files,
            links: Vec::new(),
            env: vec![("LD_LIBRARY_PATH", "/lib")],
            user: None,
            is_compressed: false,
        })
    }

    fn from_binaries(
        names: Vec<(String, Vec<String>)>,
        programs: impl IntoIterator<Item = PathBuf>,
        is_compressed: bool,
    ) -> Self {
        let files = programs.into_iter().map(File::program).collect();
        Self { names, files, links: LINKS.to_vec(), env: Vec::new(), user: None, is_compressed }
    }

    /// Returns the first name, with its tag.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |(name, _)| name)
    }

    /// Returns all names, with their tags.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the path of the image archive in a directory, writing it on first use. An existing archive is up to date,
    /// because the directory belongs to one run.
    pub(crate) fn archive(&self, dir: &Path) -> Result<PathBuf> {
        let path = dir.join(format!("{}.tar", self.name().replace(['/', ':'], "_")));
        let _guard = lock(&WRITE_LOCK);
        if !path.is_file() {
            let partial = path.with_extension("part");
            self.write(&partial)?;
            fs::rename(&partial, &path).context(|| format!("renaming {}", partial.display()))?;
        }
        Ok(path)
    }

    /// Writes an archive that every container runtime can load and returns its size in bytes.
    pub fn write(&self, path: &Path) -> Result<u64> {
        let what = || format!("writing image {} to {}", self.name(), path.display());
        fs::create_dir_all(path.parent().unwrap_or(path)).context(what)?;
        let mut file = BufWriter::new(fs::File::create(path).context(what)?);
        archive::write(self, &mut file)?;
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error).context(what)?;
        file.sync_data().context(what)?;
        Ok(file.metadata().context(what)?.len())
    }
}

/// The image is also named kube-rbac-proxy, with that entrypoint: a drop-in replacement in manifests, which set arguments
/// and no command.
fn names(tag: &str) -> Vec<(String, Vec<String>)> {
    ["outrigger", "kube-rbac-proxy"]
        .into_iter()
        .map(|name| (format!("outrigger.dev/{name}:{tag}"), vec![format!("/bin/{name}")]))
        .collect()
}
