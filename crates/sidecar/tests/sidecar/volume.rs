//! Volumes of a node: small ones in memory, and disks that hang or break.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A volume at a folder, until it is dropped.
pub struct Volume {
    folder: PathBuf,
    /// What holds it, if it is a disk.
    image: PathBuf,
}

impl Volume {
    /// In memory.
    pub fn of(folder: &Path, size: &str) -> std::io::Result<Self> {
        fs::create_dir_all(folder)?;
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], folder)?;
        Ok(Self { folder: folder.to_owned(), image: PathBuf::new() })
    }

    /// A disk. On the first error it turns read-only, as those of nodes do.
    pub fn disk(folder: &Path, image: &Path) -> std::io::Result<Self> {
        fs::File::create(image)?.set_len(32 << 20)?;
        run("mkfs.ext4", &["-q", "-e", "remount-ro"], image)?;
        let disk = Self { folder: folder.to_owned(), image: image.to_owned() };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> std::io::Result<()> {
        run("mount", &[OsStr::new("-o"), OsStr::new("loop"), self.image.as_os_str()], &self.folder)
    }

    /// Read-only, or no longer. Nobody may have a file open to write.
    pub fn read_only(&self, is: bool) -> std::io::Result<()> {
        run("mount", &["-o", if is { "remount,ro" } else { "remount,rw" }], &self.folder)
    }

    /// Whoever writes hangs.
    pub fn freeze(&self) -> std::io::Result<()> {
        run("fsfreeze", &["-f"], &self.folder)
    }

    /// Nobody hangs any more.
    pub fn thaw(&self) -> std::io::Result<()> {
        run("fsfreeze", &["-u"], &self.folder)
    }

    /// The kernel finds an error on the disk: from now on it is read-only, whoever has what open.
    pub fn breaks(&self) -> std::io::Result<()> {
        // What was written must not be what keeps pages writable.
        run("sync", &["-f"], &self.folder)?;
        let found = Command::new("findmnt").args(["-n", "-o", "SOURCE", "-M"]).arg(&self.folder).output()?;
        let device = String::from_utf8_lossy(&found.stdout).trim().replace("/dev/", "");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1")
    }

    /// As whoever looks after the machine does: nobody uses it, it is checked, and there again.
    pub fn repaired(&self) -> std::io::Result<()> {
        run("umount", &[] as &[&str], &self.folder)?;
        // 1: errors were found and mended.
        let checked = Command::new("e2fsck").arg("-p").arg(&self.image).stdout(Stdio::null()).status()?;
        assert!(matches!(checked.code(), Some(0 | 1)), "e2fsck ended with {checked}");
        self.mount()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A disk that is frozen can be neither used nor unmounted; it may be thawed already.
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.folder).stderr(Stdio::null()).status();
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

fn run(program: &str, args: &[impl AsRef<OsStr>], last: &Path) -> std::io::Result<()> {
    let status = Command::new(program).args(args).arg(last).status()?;
    assert!(status.success(), "{program} for {} ended with {status}", last.display());
    Ok(())
}
