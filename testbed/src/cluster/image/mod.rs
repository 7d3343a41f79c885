//! Container images from programs of this machine: written here, without Docker and without a registry.

mod archive;
mod libraries;

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::cluster::parts::Part;
use crate::error::{IoContext, Result};
use crate::harness::binaries;

/// Other names of our program, by which it is another.
const NAMES: [(&str, &str); 2] = [("kube-rbac-proxy", "outrigger"), ("seictl", "outrigger")];

/// The user and the group of our program: nobody in particular, by number, so that `runAsNonRoot` can be checked.
const NOBODY: &str = "65532:65532";

/// Who writes an archive, so that nobody reads half of one.
static WRITING: Mutex<()> = Mutex::new(());

/// An image: names, each with the program that runs by default, files, and other names of programs. It holds nothing else.
#[derive(Clone, Debug)]
pub struct Image {
    names: Vec<(String, Vec<String>)>,
    files: Vec<File>,
    links: Vec<(&'static str, &'static str)>,
    env: Vec<(&'static str, &'static str)>,
    /// Who runs, unless a pod says otherwise; without one it is root.
    user: Option<&'static str>,
    is_compressed: bool,
}

/// A program or a library of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    /// Where it is there, without the first slash.
    to: String,
    /// Where it is here.
    from: PathBuf,
}

impl File {
    /// A program, in `/bin`.
    fn program(from: PathBuf) -> Self {
        Self { to: format!("bin/{}", from.file_name().unwrap_or_default().display()), from }
    }
}

impl Image {
    /// Outrigger's image for tests. It also holds the test-bed's small web server and client.
    pub fn outrigger() -> Result<Self> {
        let programs = [binaries::path("outrigger")?, binaries::path("testbed-pod")?];
        Ok(Self { user: Some(NOBODY), ..Self::of_ours(names("dev"), programs, false) })
    }

    /// Outrigger's image as it is released: of this program, and of nothing else.
    #[must_use]
    pub fn released(program: PathBuf) -> Self {
        Self { user: Some(NOBODY), ..Self::of_ours(names(env!("CARGO_PKG_VERSION")), [program], true) }
    }

    /// The image of a KMS plugin that takes the arguments of Vault's.
    pub fn kms_plugin() -> Result<Self> {
        let name = "outrigger.dev/testbed-kms-plugin:dev".into();
        let entrypoint = vec!["/bin/testbed-pod".into(), "kms-plugin".into(), "--".into()];
        let programs = [binaries::path("testbed-pod")?];
        Ok(Self { links: Vec::new(), ..Self::of_ours(vec![(name, entrypoint)], programs, false) })
    }

    /// The image of the process that holds a pod's namespaces.
    pub(crate) fn pause() -> Result<Self> {
        let name = "outrigger.dev/testbed-pause:dev".into();
        let entrypoint = vec!["/bin/testbed-pod".into(), "pause".into()];
        let programs = [binaries::path("testbed-pod")?];
        Ok(Self { links: Vec::new(), ..Self::of_ours(vec![(name, entrypoint)], programs, false) })
    }

    /// The image of what stands in for the exporter of the chain's metrics: it listens where that does, and exports nothing.
    pub fn cosmos_exporter() -> Result<Self> {
        let name = "outrigger.dev/testbed-cosmos-exporter:dev".into();
        let entrypoint = vec!["/bin/testbed-pod".into(), "exporter".into(), "--".into()];
        let programs = [binaries::path("testbed-pod")?];
        Ok(Self { links: Vec::new(), ..Self::of_ours(vec![(name, entrypoint)], programs, false) })
    }

    /// The image of a real seid, under a tag of the caller's: seid and its libraries, and of this machine the shell and the two
    /// programs that the scripts of node pods use.
    pub fn seid(tag: &str) -> Result<Self> {
        let seid = Part::Seid.ensure()?;
        let mut programs = vec![seid.join("bin/seid")];
        programs.extend(["bash", "mkdir", "sleep"].map(|name| PathBuf::from(format!("/bin/{name}"))));
        let mut files = libraries::of(&programs)?;
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

    fn of_ours(
        names: Vec<(String, Vec<String>)>,
        programs: impl IntoIterator<Item = PathBuf>,
        is_compressed: bool,
    ) -> Self {
        let files = programs.into_iter().map(File::program).collect();
        Self { names, files, links: NAMES.to_vec(), env: Vec::new(), user: None, is_compressed }
    }

    /// The name that pods use, with its tag.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |(name, _)| name)
    }

    /// All of its names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }

    /// The image as one file in a folder, written by whoever asks first. A file of that name is of this very build: the folder is
    /// that of a run.
    pub(crate) fn archive(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("{}.tar", self.name().replace(['/', ':'], "_")));
        let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.is_file() {
            let part = path.with_extension("part");
            self.write(&part)?;
            fs::rename(&part, &path).context(|| format!("renaming {}", part.display()))?;
        }
        Ok(path)
    }

    /// Writes the image as one file, which every container runtime can load, and returns what it weighs.
    pub fn write(&self, path: &Path) -> Result<u64> {
        let what = || format!("writing the image {} to {}", self.name(), path.display());
        fs::create_dir_all(path.parent().unwrap_or(path)).context(what)?;
        let mut file = BufWriter::new(fs::File::create(path).context(what)?);
        archive::write(self, &mut file)?;
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error).context(what)?;
        file.sync_data().context(what)?;
        Ok(file.metadata().context(what)?.len())
    }
}

/// A manifest that runs kube-rbac-proxy gives it arguments and no command: as an image of its own name it is a drop-in.
fn names(tag: &str) -> Vec<(String, Vec<String>)> {
    ["outrigger", "kube-rbac-proxy"]
        .into_iter()
        .map(|name| (format!("outrigger.dev/{name}:{tag}"), vec![format!("/bin/{name}")]))
        .collect()
}
