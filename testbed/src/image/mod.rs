//! Container images from our own binaries: written here, without Docker and without a registry.

mod archive;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use crate::binaries;
use crate::error::{IoContext, Result};

/// An image: a name, static programs in `/bin`, and which of them runs by default. It holds nothing else.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    programs: Vec<PathBuf>,
    entrypoint: Vec<String>,
    /// Another name, by a digest: an archive can hold only names with tags.
    pinned: Option<String>,
}

impl Image {
    /// Outrigger's image. It also holds the test-bed's small web server and client.
    pub fn outrigger() -> Result<Self> {
        Ok(Self {
            name: "outrigger.dev/outrigger:dev".into(),
            programs: vec![binaries::path("outrigger")?, binaries::path("testbed-pod")?],
            entrypoint: vec!["/bin/outrigger".into()],
            pinned: None,
        })
    }

    /// The image of a KMS plugin that takes the arguments of Vault's, also known by a name that ends in `@sha256:` and a digest.
    pub fn kms_plugin(pinned: impl Into<String>) -> Result<Self> {
        Ok(Self {
            name: "outrigger.dev/testbed-kms-plugin:dev".into(),
            programs: vec![binaries::path("testbed-pod")?],
            entrypoint: vec!["/bin/testbed-pod".into(), "kms-plugin".into(), "--".into()],
            pinned: Some(pinned.into()),
        })
    }

    /// The image of the process that holds a pod's namespaces.
    pub(crate) fn pause() -> Result<Self> {
        Ok(Self {
            name: "outrigger.dev/testbed-pause:dev".into(),
            programs: vec![binaries::path("testbed-pod")?],
            entrypoint: vec!["/bin/testbed-pod".into(), "pause".into()],
            pinned: None,
        })
    }

    /// The name that pods use, with its tag.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by a digest, if it has one.
    pub(crate) fn pinned(&self) -> Option<&str> {
        self.pinned.as_deref()
    }

    /// Writes the image as a docker archive, which every container runtime can load.
    pub fn write(&self, path: &Path) -> Result<()> {
        let what = || format!("writing the image {} to {}", self.name, path.display());
        let mut file = BufWriter::new(File::create(path).context(what)?);
        archive::write(self, &mut file)?;
        file.into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .context(what)?
            .sync_data()
            .context(what)
    }
}
