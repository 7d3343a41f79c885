//! Packs a snapshot.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::Builder;

/// Packs the named entries of a directory and skips missing ones. Links are stored as links.
pub fn pack(to: impl Write, dir: &Path, names: &[String]) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(to, Compression::fast()));
    archive.follow_symlinks(false);
    for name in names {
        let path = dir.join(name);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => archive.append_dir_all(name, &path)?,
            Ok(_) => archive.append_path_with_name(&path, name)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    archive.into_inner()?.finish()?.flush()
}
