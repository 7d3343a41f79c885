//! Files that are there as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Writes a file as a whole: whoever reads it sees what was there before, or all of this, also after a crash.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    stage(path, content, mode)?.place()?;
    sync_folder(folder(path))
}

/// A file that is on disk, and not yet in its place. It is removed when nobody places it.
#[derive(Debug)]
pub struct Staged {
    new: PathBuf,
    path: PathBuf,
    placed: bool,
}

/// Puts the content of a file on disk, beside its place.
pub fn stage(path: &Path, content: &[u8], mode: u32) -> io::Result<Staged> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder(path).join(format!(".{name}.{:016x}.new", rand()));
    let staged = Staged { new, path: path.to_owned(), placed: false };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&staged.new)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(staged)
}

impl Staged {
    /// Puts it in its place. The name is on disk when its folder is.
    pub fn place(mut self) -> io::Result<()> {
        fs::rename(&self.new, &self.path)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed {
            // It may not be there.
            let _ = fs::remove_file(&self.new);
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Puts the names in a folder on disk.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Puts a file that is complete in its place, on disk.
pub fn place(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_folder(folder(to))
}

/// The SHA-256 of a file, in lower-case hexadecimal.
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

/// What was done to a file or folder that may be missing; none if it is.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Removes a file that may be gone already.
pub fn remove(path: &Path) -> io::Result<()> {
    if_there(fs::remove_file(path)).map(drop)
}

/// Removes a file or a folder that may be gone already.
pub fn clear(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    if_there(removed).map(drop)
}

/// What is in a folder that may be missing.
pub fn entries(folder: &Path) -> io::Result<impl Iterator<Item = fs::DirEntry>> {
    Ok(if_there(fs::read_dir(folder))?.into_iter().flatten().flatten())
}

/// Reads a file that may be missing, whatever it holds.
pub fn read_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if_there(fs::read(path))
}

/// Reads a text file that may be missing.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    if_there(fs::read_to_string(path))
}

/// Removes files of a folder that were staged and never placed. Nobody may write there meanwhile.
pub fn sweep(folder: &Path) -> io::Result<()> {
    for entry in entries(folder)?.filter(|entry| is_staged(&entry.file_name().to_string_lossy())) {
        remove(&entry.path())?;
    }
    Ok(())
}

/// Whether a name is one of those that [`stage`] gives.
fn is_staged(name: &str) -> bool {
    let parts = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")?.rsplit_once('.'));
    parts.is_some_and(|(_, random)| {
        random.len() == 16 && random.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Makes a folder that only its owner can look into.
pub fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn rand() -> u64 {
    let bytes = uuid::Uuid::new_v4();
    bytes.as_u64_pair().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        write(&file, b"one", 0o600).unwrap();
        write(&file, b"two", 0o600).unwrap();
        assert_eq!(read(&file).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(&dir.path().join("none/a"), b"x", 0o600).is_err());
        assert_eq!(read(&dir.path().join("b")).unwrap(), None);
        std::mem::forget(stage(&file, b"three", 0o600).unwrap());
        fs::write(dir.path().join(".a.new"), "somebody else's").unwrap();
        sweep(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "what a killed process left is gone");
        remove(&dir.path().join("b")).unwrap();
    }
}
