//! Volumes: tmpfs, and ext4 disks that hang or fail.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted volume; unmounted on drop.
pub struct Volume {
    dir: PathBuf,
    /// The disk image; empty for tmpfs.
    image: PathBuf,
}

impl Volume {
    /// Mounts a tmpfs.
    pub fn tmpfs(dir: &Path, size: &str) -> std::io::Result<Self> {
        fs::create_dir_all(dir)?;
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], dir)?;
        Ok(Self { dir: dir.to_owned(), image: PathBuf::new() })
    }

    /// Mounts an ext4 disk that becomes read-only on the first error, like those of nodes.
    pub fn disk(dir: &Path, image: &Path) -> std::io::Result<Self> {
        fs::File::create(image)?.set_len(32 << 20)?;
        run("mkfs.ext4", &["-q", "-e", "remount-ro"], image)?;
        let disk = Self { dir: dir.to_owned(), image: image.to_owned() };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> std::io::Result<()> {
        run("mount", &[OsStr::new("-o"), OsStr::new("loop"), self.image.as_os_str()], &self.dir)
    }

    /// Remounts read-only or read-write. Fails while files are open for writing.
    pub fn set_read_only(&self, read_only: bool) -> std::io::Result<()> {
        run("mount", &["-o", if read_only { "remount,ro" } else { "remount,rw" }], &self.dir)
    }

    /// Makes all writes hang.
    pub fn freeze(&self) -> std::io::Result<()> {
        run("fsfreeze", &["-f"], &self.dir)
    }

    /// Ends [`Self::freeze`].
    pub fn thaw(&self) -> std::io::Result<()> {
        run("fsfreeze", &["-u"], &self.dir)
    }

    /// Triggers a file system error: the disk becomes read-only even while files are open.
    pub fn inject_error(&self) -> std::io::Result<()> {
        // Dirty pages must not keep the file system writable.
        run("sync", &["-f"], &self.dir)?;
        let found = Command::new("findmnt").args(["-n", "-o", "SOURCE", "-M"]).arg(&self.dir).output()?;
        let device = String::from_utf8_lossy(&found.stdout).trim().replace("/dev/", "");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1")
    }

    /// Unmounts, checks and remounts the disk.
    pub fn repair(&self) -> std::io::Result<()> {
        run("umount", &[] as &[&str], &self.dir)?;
        // 1: errors were found and corrected.
        let checked = Command::new("e2fsck").arg("-p").arg(&self.image).stdout(Stdio::null()).status()?;
        assert!(matches!(checked.code(), Some(0 | 1)), "e2fsck exited with {checked}");
        self.mount()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A frozen disk cannot be unmounted. It may be thawed already.
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.dir).stderr(Stdio::null()).status();
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}

fn run(program: &str, args: &[impl AsRef<OsStr>], last: &Path) -> std::io::Result<()> {
    let status = Command::new(program).args(args).arg(last).status()?;
    assert!(status.success(), "{program} {} exited with {status}", last.display());
    Ok(())
}
