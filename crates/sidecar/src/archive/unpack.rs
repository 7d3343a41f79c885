//! Unpacks untrusted archives. Nothing is written outside the target: every name component is opened relative to its parent
//! directory, and links are never followed. Bytes, entries and name lengths are limited.

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

/// The longest name in an extended header.
const MAX_NAME: u64 = 4096;

/// The maximum padding after the end of an archive.
const MAX_TRAILER: u64 = 1 << 20;

/// The read buffer size.
const CHUNK: usize = 128 << 10;

/// Limits on the content of an archive.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

/// Unpacked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

/// Why an archive was rejected or could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// An entry name leaves the target.
    #[error("archive rejected: entry {0:?} is outside the target directory")]
    EntryOutside(String),
    /// A link target leaves the target directory.
    #[error("archive rejected: link {0:?} points outside the target directory")]
    LinkOutside(String),
    /// An entry is not a file, directory or symbolic link.
    #[error("archive rejected: {0:?} is not a file, directory or symbolic link")]
    UnsupportedEntry(String),
    /// A directory or link has content.
    #[error("archive rejected: {0:?} is a directory or link with a size")]
    UnexpectedContent(String),
    /// A limit is exceeded.
    #[error("archive rejected: it contains more than {0}")]
    LimitExceeded(String),
    /// The archive is corrupt.
    #[error("archive is corrupt: {0}")]
    Corrupt(io::Error),
    /// Writing an entry failed.
    #[error("writing {0:?}: {1}")]
    Io(String, io::Error),
    /// Cancelled by the callback.
    #[error("cancelled")]
    Cancelled,
}

/// Unpacks an archive into an existing directory. Between chunks it calls `keep_going` with the progress; `false` cancels.
pub fn unpack(
    archive: impl Read,
    target: &Path,
    limits: Limits,
    keep_going: &mut dyn FnMut(Unpacked) -> bool,
) -> Result<Unpacked, UnpackError> {
    let root = File::open(target).map_err(|error| UnpackError::Io(target.display().to_string(), error))?;
    let mut unpacker = Unpacker { root, limits, done: Unpacked::default(), keep_going };
    let mut archive = Archive::new(MultiGzDecoder::new(io::BufReader::with_capacity(CHUNK, archive)));
    let mut long = LongNames::default();
    // Raw, because the library trusts the name lengths in extended headers.
    for entry in archive.entries().map_err(UnpackError::Corrupt)?.raw(true) {
        unpacker.entry(entry.map_err(UnpackError::Corrupt)?, &mut long)?;
    }
    // Read to the end: the gzip checksum is there.
    let mut trailer = archive.into_inner().take(MAX_TRAILER);
    io::copy(&mut trailer, &mut io::sink()).map_err(UnpackError::Corrupt)?;
    // One sync for all files: syncing each is too slow for snapshots of many small files.
    rustix::fs::syncfs(&unpacker.root)
        .map_err(|error| UnpackError::Io(target.display().to_string(), error.into()))?;
    Ok(unpacker.done)
}

/// Long names from extended headers that precede an entry.
#[derive(Default)]
struct LongNames {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

struct Unpacker<'a> {
    root: File,
    limits: Limits,
    done: Unpacked,
    keep_going: &'a mut dyn FnMut(Unpacked) -> bool,
}

impl Unpacker<'_> {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>, long: &mut LongNames) -> Result<(), UnpackError> {
        self.done.entries += 1;
        if self.done.entries > self.limits.entries {
            return Err(UnpackError::LimitExceeded(format!("{} entries", self.limits.entries)));
        }
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => {
                long.name = Some(read_name(&mut entry)?);
                return Ok(());
            }
            EntryType::GNULongLink => {
                long.link = Some(read_name(&mut entry)?);
                return Ok(());
            }
            EntryType::XHeader => return parse_pax(&read_name(&mut entry)?, long),
            EntryType::XGlobalHeader => return read_name(&mut entry).map(drop),
            _ => {}
        }
        let LongNames { name: long_name, link: long_link } = std::mem::take(long);
        let bytes = long_name.unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let display = String::from_utf8_lossy(&bytes).into_owned();
        let components =
            name::components(&bytes).ok_or_else(|| UnpackError::EntryOutside(display.clone()))?;
        // Such content would be skipped, and so not be counted.
        if matches!(kind, EntryType::Directory | EntryType::Symlink) && entry.size() > 0 {
            return Err(UnpackError::UnexpectedContent(display));
        }
        let failed = |error| UnpackError::Io(display.clone(), error);
        let Some((last, dirs)) = components.split_last() else { return Ok(()) };
        let dir = self.open_dir(dirs).map_err(failed)?;
        match kind {
            EntryType::Directory => drop(self.open_dir(&components).map_err(failed)?),
            EntryType::Regular | EntryType::Continuous => self.write_file(entry, &dir, last, &display)?,
            EntryType::Symlink => {
                let target =
                    long_link.or_else(|| entry.header().link_name_bytes().map(|name| name.into_owned()));
                let target = target.unwrap_or_default();
                if !name::stays_inside(dirs.len(), &target) {
                    return Err(UnpackError::LinkOutside(display));
                }
                remove_existing(&dir, last).map_err(failed)?;
                symlinkat(target.as_slice(), &dir, *last).map_err(|error| failed(error.into()))?;
            }
            _ => return Err(UnpackError::UnsupportedEntry(display)),
        }
        Ok(())
    }

    /// Opens a directory below the root and creates missing ones.
    fn open_dir(&self, components: &[&OsStr]) -> io::Result<OwnedFd> {
        let mut dir = self.root.as_fd().try_clone_to_owned()?;
        for component in components {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut open = openat(&dir, *component, flags, Mode::empty());
            if matches!(open, Err(Errno::NOENT)) {
                mkdirat(&dir, *component, Mode::from_raw_mode(0o755))?;
                open = openat(&dir, *component, flags, Mode::empty());
            }
            dir = open?;
        }
        Ok(dir)
    }

    fn write_file<R: Read>(
        &mut self,
        mut entry: Entry<'_, R>,
        dir: &OwnedFd,
        name: &OsStr,
        display: &str,
    ) -> Result<(), UnpackError> {
        let failed = |error| UnpackError::Io(display.to_owned(), error);
        let mode = entry.header().mode().map_err(UnpackError::Corrupt)?;
        remove_existing(dir, name).map_err(failed)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(dir, name, flags, Mode::from_raw_mode((mode & 0o755) | 0o600));
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = entry.read(&mut buffer).map_err(UnpackError::Corrupt)?;
            if length == 0 {
                break;
            }
            self.done.bytes += length as u64;
            if self.done.bytes > self.limits.bytes {
                return Err(UnpackError::LimitExceeded(format!("{} bytes", self.limits.bytes)));
            }
            file.write_all(&buffer[..length]).map_err(failed)?;
            if !(self.keep_going)(self.done) {
                return Err(UnpackError::Cancelled);
            }
        }
        Ok(())
    }
}

/// Removes an existing entry of the same name: writing through a link in its place would leave the target.
fn remove_existing(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads a long name that is stored as an entry.
fn read_name<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, UnpackError> {
    let mut text = Vec::new();
    if entry.size() > MAX_NAME {
        return Err(UnpackError::LimitExceeded(format!("{MAX_NAME} bytes in a name")));
    }
    entry.take(MAX_NAME).read_to_end(&mut text).map_err(UnpackError::Corrupt)?;
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(text)
}

/// Parses pax records: `LENGTH KEY=VALUE\n`.
fn parse_pax(records: &[u8], long: &mut LongNames) -> Result<(), UnpackError> {
    let malformed =
        || UnpackError::Corrupt(io::Error::new(io::ErrorKind::InvalidData, "malformed extended header"));
    let mut rest = records;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(malformed)?;
        let length = std::str::from_utf8(&rest[..space])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(malformed)?;
        let record = rest
            .get(space + 1..length)
            .and_then(|record| record.strip_suffix(b"\n"))
            .ok_or_else(malformed)?;
        rest = rest.get(length..).ok_or_else(malformed)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        let (key, value) = (&record[..equals], record[equals + 1..].to_vec());
        match key {
            b"path" => long.name = Some(value),
            b"linkpath" => long.link = Some(value),
            // Only used for files above 8 GiB, which snapshots do not contain.
            b"size" => return Err(UnpackError::LimitExceeded("8 GiB in one file".into())),
            _ => {}
        }
    }
    Ok(())
}
