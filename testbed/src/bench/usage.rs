//! What a process has used, as the kernel counts it.

use std::fs;
use std::time::Duration;

use crate::error::Error;
use rustix::param::clock_ticks_per_second;

/// Time on processors so far, of all threads, those that have ended too.
pub fn cpu(pid: u32) -> Result<Duration, Error> {
    let stat = read(pid, "stat")?;
    // The name, in parentheses, may hold spaces. The times of user and kernel are the 14th and 15th field; the third follows the name.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok());
    let (Some(user), Some(kernel)) = (ticks(), ticks()) else {
        return Err(Error::Refused(format!("/proc/{pid}/stat reads {stat:?}")));
    };
    Ok(Duration::from_millis((user + kernel) * 1_000 / clock_ticks_per_second()))
}

/// Resident memory (VmRSS), in megabytes of a million bytes.
pub fn memory(pid: u32) -> Result<f64, Error> {
    Ok(kibibytes(pid)? as f64 * 1_024.0 / 1_000_000.0)
}

/// Resident memory (VmRSS), in KiB, as the kernel says it.
pub fn kibibytes(pid: u32) -> Result<u64, Error> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|text| text.trim().parse().ok());
    kibibytes.ok_or_else(|| Error::Refused(format!("/proc/{pid}/status tells no VmRSS")))
}

fn read(pid: u32, file: &str) -> Result<String, Error> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).map_err(|source| Error::Io { what: format!("reading {path}"), source })
}
