//! Atomic file writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Writes a file atomically: readers see the old or the new content, also after a crash.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    stage(path, content, mode)?.commit()?;
    sync_dir(parent_dir(path))
}

/// A file that is on disk under a temporary name. It is removed on drop unless committed.
#[derive(Debug)]
pub struct Staged {
    staged: PathBuf,
    path: PathBuf,
    is_committed: bool,
}

/// Writes the content to a temporary file next to its target and syncs it.
pub fn stage(path: &Path, content: &[u8], mode: u32) -> io::Result<Staged> {
    let staged = Staged { staged: staged_path(path), path: path.to_owned(), is_committed: false };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&staged.staged)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(staged)
}

impl Staged {
    /// Renames the file to its target. The rename is durable only after [`sync_dir`].
    pub fn commit(mut self) -> io::Result<()> {
        fs::rename(&self.staged, &self.path)?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_committed {
            // It may not exist.
            let _ = fs::remove_file(&self.staged);
        }
    }
}

/// Returns a temporary name next to a path.
fn staged_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent_dir(path).join(format!(".{name}.{:016x}.new", random_suffix()))
}

fn parent_dir(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Syncs a directory, which makes renames in it durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Syncs a complete file and renames it to its target.
pub fn commit(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_dir(parent_dir(to))
}

/// Returns the SHA-256 of a file in lower-case hexadecimal.
pub fn hash(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(chain::hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// Turns "not found" into `None`.
pub fn ok_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Removes a file if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    ok_if_missing(fs::remove_file(path)).map(drop)
}

/// Removes a file or directory tree if it exists.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    ok_if_missing(removed).map(drop)
}

/// Makes sure that nothing has a name, in a directory that others can write to. It is renamed first: who creates a directory can
/// prevent that its content is removed, but not that it is renamed. Then it is removed if possible, without following links.
pub fn free_name(path: &Path) -> io::Result<()> {
    let renamed = staged_path(path);
    if ok_if_missing(fs::rename(path, &renamed))?.is_some()
        && let Err(error) = remove_all(&renamed)
    {
        tracing::warn!(%error, path = %renamed.display(), "cannot remove a renamed file or directory");
    }
    Ok(())
}

/// Lists a directory; empty if it does not exist.
pub fn entries(dir: &Path) -> io::Result<impl Iterator<Item = fs::DirEntry>> {
    Ok(ok_if_missing(fs::read_dir(dir))?.into_iter().flatten().flatten())
}

/// Reads a file; `None` if it does not exist.
pub fn read_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    ok_if_missing(fs::read(path))
}

/// Reads a UTF-8 file; `None` if it does not exist.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    ok_if_missing(fs::read_to_string(path))
}

/// Removes temporary files of [`stage`] that were never committed, and directories that have such a name. Must not run concurrently
/// with writes to the directory.
pub fn remove_staged(dir: &Path) -> io::Result<()> {
    for entry in entries(dir)?.filter(|entry| is_staged(&entry.file_name().to_string_lossy())) {
        remove_all(&entry.path())?;
    }
    Ok(())
}

/// Returns whether [`stage`] created a file of this name.
fn is_staged(name: &str) -> bool {
    let parts = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")?.rsplit_once('.'));
    parts.is_some_and(|(_, random)| {
        random.len() == 16 && random.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Creates a directory with mode 0700.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn random_suffix() -> u64 {
    let bytes = uuid::Uuid::new_v4();
    bytes.as_u64_pair().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_is_atomic_and_leaves_no_temporary_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        write(&file, b"one", 0o600).unwrap();
        write(&file, b"two", 0o600).unwrap();
        assert_eq!(read(&file).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(&dir.path().join("none/a"), b"x", 0o600).is_err());
        assert_eq!(read(&dir.path().join("b")).unwrap(), None);
        std::mem::forget(stage(&file, b"three", 0o600).unwrap());
        fs::write(dir.path().join(".a.new"), "unrelated").unwrap();
        remove_staged(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "leftovers of a killed process are removed");
        remove(&dir.path().join("b")).unwrap();
    }
}
