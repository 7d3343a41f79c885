//! The standard `process_*` metrics of Prometheus clients.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::catalog::{Description, PROCESS_CPU, PROCESS_FDS, PROCESS_MEMORY, PROCESS_START, PROCESS_VIRTUAL};

/// `USER_HZ`: Linux reports CPU time to user space in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc` on each scrape.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut gauge = |description: &Description, value: f64| {
            let metric = ConstGauge::new(value);
            let encoder =
                encoder.encode_descriptor(description.name, description.help, None, metric.metric_type())?;
            metric.encode(encoder)
        };
        // Without /proc these metrics are absent.
        if let Some((resident, size)) = memory() {
            gauge(&PROCESS_MEMORY, resident)?;
            gauge(&PROCESS_VIRTUAL, size)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            gauge(&PROCESS_FDS, open.count() as f64)?;
        }
        if let Some(start) = start_time() {
            gauge(&PROCESS_START, start)?;
        }
        if let Some(cpu) = cpu_seconds() {
            let metric = ConstCounter::new(cpu);
            let name = PROCESS_CPU.name.trim_end_matches("_total");
            metric.encode(encoder.encode_descriptor(
                name,
                PROCESS_CPU.help,
                None,
                metric.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

/// Returns the fields of /proc/self/stat from the third on. The second is the program's name, which may contain spaces.
fn stat() -> Option<Vec<f64>> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect())
}

fn cpu_seconds() -> Option<f64> {
    let fields = stat()?;
    Some((fields.get(11)? + fields.get(12)?) / TICKS_PER_SECOND)
}

fn start_time() -> Option<f64> {
    let after_boot = stat()?.get(19)? / TICKS_PER_SECOND;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + after_boot)
}

/// Returns resident and virtual memory in bytes.
fn memory() -> Option<(f64, f64)> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((kibibytes("VmRSS:")? * 1024.0, kibibytes("VmSize:")? * 1024.0))
}
