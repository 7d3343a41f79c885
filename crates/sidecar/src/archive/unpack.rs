//! Unpacks an archive that nobody vouches for. Nothing is written outside the target, whatever stands in the archive: each
//! part of a name is opened in the folder before it, and links are never followed. Bytes, entries and names have limits.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};

use super::name;

/// The longest name in a header of its own.
const LONGEST_NAME: u64 = 4096;

/// What may follow the end of an archive: padding.
const LONGEST_TAIL: u64 = 1 << 20;

/// How much is read at once.
const CHUNK: usize = 128 << 10;

/// How much an archive may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// So many bytes of files.
    pub bytes: u64,
    /// So many entries.
    pub entries: u64,
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// So many bytes of files.
    pub bytes: u64,
    /// So many entries.
    pub entries: u64,
}

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// An entry leads outside.
    #[error("the archive is refused: {0:?} leads outside")]
    Outside(String),
    /// A link leads outside.
    #[error("the archive is refused: the link {0:?} leads outside")]
    Link(String),
    /// An entry is neither file, folder nor link.
    #[error("the archive is refused: {0:?} is neither file, folder nor symbolic link")]
    Kind(String),
    /// It holds more than it may.
    #[error("the archive is refused: it holds more than {0}")]
    TooMuch(String),
    /// It is damaged.
    #[error("the archive is damaged: {0}")]
    Damaged(io::Error),
    /// A file could not be written.
    #[error("writing {0:?}: {1}")]
    Io(String, io::Error),
    /// It was told to stop.
    #[error("cancelled")]
    Cancelled,
}

/// Unpacks an archive into a folder that is there. `go_on` is asked between chunks, with what is unpacked so far.
pub fn unpack(
    archive: impl Read,
    target: &Path,
    limits: Limits,
    go_on: &mut dyn FnMut(Unpacked) -> bool,
) -> Result<Unpacked, UnpackError> {
    let root = File::open(target).map_err(|error| UnpackError::Io(target.display().to_string(), error))?;
    let mut unpacker = Unpacker { root, limits, done: Unpacked::default(), go_on };
    let mut archive = Archive::new(MultiGzDecoder::new(io::BufReader::with_capacity(CHUNK, archive)));
    let mut long = Long::default();
    // Raw: what says how long a name is comes from the archive, too.
    for entry in archive.entries().map_err(UnpackError::Damaged)?.raw(true) {
        unpacker.entry(entry.map_err(UnpackError::Damaged)?, &mut long)?;
    }
    // To the end: only there stands whether everything came as it was packed.
    let mut rest = archive.into_inner().take(LONGEST_TAIL);
    io::copy(&mut rest, &mut io::sink()).map_err(UnpackError::Damaged)?;
    // All at once: one by one takes a snapshot of many small files for ever.
    rustix::fs::syncfs(&unpacker.root)
        .map_err(|error| UnpackError::Io(target.display().to_string(), error.into()))?;
    Ok(unpacker.done)
}

/// Names that stood in headers before an entry.
#[derive(Default)]
struct Long {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

struct Unpacker<'a> {
    root: File,
    limits: Limits,
    done: Unpacked,
    go_on: &'a mut dyn FnMut(Unpacked) -> bool,
}

impl Unpacker<'_> {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>, long: &mut Long) -> Result<(), UnpackError> {
        self.done.entries += 1;
        if self.done.entries > self.limits.entries {
            return Err(UnpackError::TooMuch(format!("{} entries", self.limits.entries)));
        }
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => {
                long.name = Some(text(&mut entry)?);
                return Ok(());
            }
            EntryType::GNULongLink => {
                long.link = Some(text(&mut entry)?);
                return Ok(());
            }
            EntryType::XHeader => return extended(&text(&mut entry)?, long),
            EntryType::XGlobalHeader => return text(&mut entry).map(drop),
            _ => {}
        }
        let Long { name: long_name, link: long_link } = std::mem::take(long);
        let bytes = long_name.unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let parts = name::parts(&bytes).ok_or_else(|| UnpackError::Outside(shown.clone()))?;
        let failed = |error| UnpackError::Io(shown.clone(), error);
        let Some((last, folders)) = parts.split_last() else { return Ok(()) };
        let folder = self.folder(folders).map_err(failed)?;
        match kind {
            EntryType::Directory => drop(self.folder(&parts).map_err(failed)?),
            EntryType::Regular | EntryType::Continuous => self.file(entry, &folder, last, &shown)?,
            EntryType::Symlink => {
                let target =
                    long_link.or_else(|| entry.header().link_name_bytes().map(|name| name.into_owned()));
                let target = target.unwrap_or_default();
                if !name::stays_inside(folders.len(), &target) {
                    return Err(UnpackError::Link(shown));
                }
                remove(&folder, last).map_err(failed)?;
                symlinkat(target.as_slice(), &folder, *last).map_err(|error| failed(error.into()))?;
            }
            _ => return Err(UnpackError::Kind(shown)),
        }
        Ok(())
    }

    /// A folder below the root, made if need be.
    fn folder(&self, parts: &[&OsStr]) -> io::Result<OwnedFd> {
        let mut folder = self.root.as_fd().try_clone_to_owned()?;
        for part in parts {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut open = openat(&folder, *part, flags, Mode::empty());
            if matches!(open, Err(Errno::NOENT)) {
                mkdirat(&folder, *part, Mode::from_raw_mode(0o755))?;
                open = openat(&folder, *part, flags, Mode::empty());
            }
            folder = open?;
        }
        Ok(folder)
    }

    fn file<R: Read>(
        &mut self,
        mut entry: Entry<'_, R>,
        folder: &OwnedFd,
        name: &OsStr,
        shown: &str,
    ) -> Result<(), UnpackError> {
        let failed = |error| UnpackError::Io(shown.to_owned(), error);
        let mode = entry.header().mode().map_err(UnpackError::Damaged)?;
        remove(folder, name).map_err(failed)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::from_raw_mode((mode & 0o755) | 0o600));
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = entry.read(&mut buffer).map_err(UnpackError::Damaged)?;
            if length == 0 {
                break;
            }
            self.done.bytes += length as u64;
            if self.done.bytes > self.limits.bytes {
                return Err(UnpackError::TooMuch(format!("{} bytes", self.limits.bytes)));
            }
            file.write_all(&buffer[..length]).map_err(failed)?;
            if !(self.go_on)(self.done) {
                return Err(UnpackError::Cancelled);
            }
        }
        Ok(())
    }
}

/// An entry replaces one of the same name; a link in its place would lead the writing elsewhere.
fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A name that has an entry of its own.
fn text<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, UnpackError> {
    let mut text = Vec::new();
    if entry.size() > LONGEST_NAME {
        return Err(UnpackError::TooMuch(format!("{LONGEST_NAME} bytes in a name")));
    }
    entry.take(LONGEST_NAME).read_to_end(&mut text).map_err(UnpackError::Damaged)?;
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(text)
}

/// The records of a header that POSIX defines: `LENGTH KEY=VALUE\n`.
fn extended(records: &[u8], long: &mut Long) -> Result<(), UnpackError> {
    let bad = || {
        UnpackError::Damaged(io::Error::new(io::ErrorKind::InvalidData, "an extended header cannot be read"))
    };
    let mut rest = records;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(bad)?;
        let length =
            std::str::from_utf8(&rest[..space]).ok().and_then(|text| text.parse().ok()).ok_or_else(bad)?;
        let record =
            rest.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(bad)?;
        rest = rest.get(length..).ok_or_else(bad)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
        let (key, value) = (&record[..equals], record[equals + 1..].to_vec());
        match key {
            b"path" => long.name = Some(value),
            b"linkpath" => long.link = Some(value),
            // Sizes that need it are above eight gigabytes: no file of a snapshot is.
            b"size" => return Err(UnpackError::TooMuch("8 GiB in one file".into())),
            _ => {}
        }
    }
    Ok(())
}
