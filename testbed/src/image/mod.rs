//! Container images from our own binaries: written here, without Docker and without a registry.

mod archive;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use crate::binaries;
use crate::error::{IoContext, Result};

/// Who the programs of our images are: nobody, as Kubernetes' own images call him.
const USER: &str = "65532:65532";

/// Other names of our program, by which it is another.
const NAMES: [(&str, &str); 2] = [("kube-rbac-proxy", "outrigger"), ("seictl", "outrigger")];

/// An image: names, each with the program that runs by default, static programs in `/bin`, and other names of these. It holds
/// nothing else.
#[derive(Clone, Debug)]
pub struct Image {
    names: Vec<(String, Vec<String>)>,
    programs: Vec<PathBuf>,
    links: Vec<(&'static str, &'static str)>,
    is_compressed: bool,
}

impl Image {
    /// Outrigger's image for tests. It also holds the test-bed's small web server and client.
    pub fn outrigger() -> Result<Self> {
        Ok(Self {
            names: names("dev"),
            programs: vec![binaries::path("outrigger")?, binaries::path("testbed-pod")?],
            links: NAMES.to_vec(),
            is_compressed: false,
        })
    }

    /// Outrigger's image as it is released: of this program, and of nothing else.
    #[must_use]
    pub fn released(program: PathBuf) -> Self {
        let names = names(env!("CARGO_PKG_VERSION"));
        Self { names, programs: vec![program], links: NAMES.to_vec(), is_compressed: true }
    }

    /// The image of the process that holds a pod's namespaces.
    pub(crate) fn pause() -> Result<Self> {
        Ok(Self {
            names: vec![(
                "outrigger.dev/testbed-pause:dev".into(),
                vec!["/bin/testbed-pod".into(), "pause".into()],
            )],
            programs: vec![binaries::path("testbed-pod")?],
            links: Vec::new(),
            is_compressed: false,
        })
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

    /// Writes the image as one file, which every container runtime can load.
    pub fn write(&self, path: &Path) -> Result<()> {
        let what = || format!("writing the image {} to {}", self.name(), path.display());
        let mut file = BufWriter::new(File::create(path).context(what)?);
        archive::write(self, &mut file)?;
        file.into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .context(what)?
            .sync_data()
            .context(what)
    }
}

/// A manifest that runs kube-rbac-proxy gives it arguments and no command: as an image of its own name it is a drop-in.
fn names(tag: &str) -> Vec<(String, Vec<String>)> {
    ["outrigger", "kube-rbac-proxy"]
        .into_iter()
        .map(|name| (format!("outrigger.dev/{name}:{tag}"), vec![format!("/bin/{name}")]))
        .collect()
}
