//! Cache of built parts: one directory per content of a module, complete or absent.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Part, build};
use crate::error::{Error, IoContext, Result};
use crate::process::tool;

/// Returns the directory of a built part, building it if necessary. Of concurrent processes, one builds and the others
/// wait. A killed build leaves no usable result.
pub(super) fn ensure(part: Part) -> Result<PathBuf> {
    let cache = cache_dir()?;
    fs::create_dir_all(&cache)
        .context(|| format!("creating {}; set OUTRIGGER_CACHE to use another directory", cache.display()))?;
    let id = format!("{part}-{}", fingerprint(part)?);
    let built = cache.join(&id);
    if built.is_dir() {
        return Ok(built);
    }
    let lock_path = cache.join(format!("{id}.lock"));
    let lock = File::create(&lock_path).context(|| format!("opening {}", lock_path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!(
                "testbed: another process builds {part}; waiting for it (usually {})",
                part.typical_build_time()
            );
            lock.lock().context(|| format!("waiting for {}", lock_path.display()))?;
        }
        Err(TryLockError::Error(source)) => {
            return Err(Error::Io { what: format!("locking {}", lock_path.display()), source });
        }
    }
    if built.is_dir() {
        return Ok(built);
    }
    let draft = cache.join(format!("{id}.draft"));
    // Left by a killed build: no other process builds while this one holds the lock.
    let _ = fs::remove_dir_all(&draft);
    fs::create_dir_all(&draft).context(|| format!("creating {}", draft.display()))?;
    build::build(part, &part.module(), &draft, &cache.join(format!("{id}.log")))?;
    fs::rename(&draft, &built).context(|| format!("renaming {}", draft.display()))?;
    Ok(built)
}

/// Returns `OUTRIGGER_CACHE`, or a directory in the cache of the user.
fn cache_dir() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OUTRIGGER_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("outrigger")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/outrigger")))
        .ok_or_else(|| Error::Other("neither OUTRIGGER_CACHE nor HOME is set: set one of them".into()))
}

/// Hashes all inputs of a build: files of the module, build command, compiler version.
fn fingerprint(part: Part) -> Result<String> {
    let mut hash = Sha256::new();
    let module = part.module();
    let mut files: Vec<PathBuf> = fs::read_dir(&module)
        .context(|| format!("reading {}", module.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in &files {
        let bytes = fs::read(file).context(|| format!("reading {}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        add(&mut hash, name.as_bytes());
        add(&mut hash, &bytes);
    }
    add(&mut hash, build::recipe(part, Path::new("OUT")).text().as_bytes());
    add(&mut hash, tool::run("go", ["version"])?.as_bytes());
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Hashes the length first, so that different lists of files cannot collide.
fn add(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
