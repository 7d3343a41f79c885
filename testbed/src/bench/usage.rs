//! Resource usage of processes, from /proc.

use std::fs;
use std::time::Duration;

use crate::error::Error;
use rustix::param::clock_ticks_per_second;

/// Returns the CPU time of all threads, including exited ones.
pub fn cpu_time(pid: u32) -> Result<Duration, Error> {
    let stat = read(pid, "stat")?;
    // The name in parentheses may contain spaces and is followed by the third field; utime and stime are the 14th and 15th.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok());
    let (Some(user), Some(kernel)) = (ticks(), ticks()) else {
        return Err(Error::Other(format!("malformed /proc/{pid}/stat: {stat:?}")));
    };
    Ok(Duration::from_millis((user + kernel) * 1_000 / clock_ticks_per_second()))
}

/// Returns resident memory (VmRSS) in MB (10^6 bytes).
pub fn rss_mb(pid: u32) -> Result<f64, Error> {
    Ok(rss_kib(pid)? as f64 * 1_024.0 / 1_000_000.0)
}

/// Returns resident memory (VmRSS) in KiB.
pub fn rss_kib(pid: u32) -> Result<u64, Error> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|text| text.trim().parse().ok());
    kibibytes.ok_or_else(|| Error::Other(format!("no VmRSS in /proc/{pid}/status")))
}

fn read(pid: u32, file: &str) -> Result<String, Error> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).map_err(|source| Error::Io { what: format!("reading {path}"), source })
}
