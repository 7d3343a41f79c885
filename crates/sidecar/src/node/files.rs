//! Files that are there as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Writes a file as a whole: whoever reads it sees what was there before, or all of this, also after a crash.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.{:016x}.new", rand()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_folder(folder)
    })();
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Puts the names in a folder on disk.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Puts a file that is complete in its place, on disk.
pub fn place(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_folder(to.parent().unwrap_or(Path::new(".")))
}

/// The SHA-256 of a file, in lower-case hexadecimal.
pub fn hash(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(super::hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// Removes a file that may be gone already.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Reads a file that may be missing.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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
        remove(&dir.path().join("b")).unwrap();
    }
}
