//! Probes all plugins of a node concurrently and turns the results into reports.

use std::time::{Duration, Instant};

use api::kms::{Cause, PluginStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use plan::kms::cadence;
use plan::kms::call::{CallError, StatusReply};
use plan::kms::history::ProbeHistory;
use plan::kms::publication::ProbeReport;
use plan::kms::round_trip;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use super::metrics::ReporterMetrics;
use super::settings::Settings;
use crate::probe::PluginClient;
use crate::socket::PluginSocket;

/// Number of bytes that a round trip encrypts and decrypts.
const SAMPLE_LENGTH: usize = 32;

/// The plugins of one node, with their history.
pub(super) struct Plugins {
    read_timeout: Duration,
    round_trip_interval: Option<Duration>,
    round_trip_due: Option<Instant>,
    monitored: Vec<MonitoredPlugin>,
    metrics: ReporterMetrics,
}

struct MonitoredPlugin {
    socket: PluginSocket,
    client: PluginClient,
    history: ProbeHistory,
}

/// Result of one probe.
struct ProbeResult {
    /// Index of the plugin.
    index: usize,
    status: Result<StatusReply, CallError>,
    /// Result of the Encrypt and Decrypt round trip, if there was one.
    round_trip: Option<Result<(), String>>,
    /// Duration of the Status call.
    took: Duration,
    checked: Time,
}

impl Plugins {
    pub(super) fn new(settings: &Settings, metrics: &ReporterMetrics) -> Self {
        let monitored = |socket: &PluginSocket| MonitoredPlugin {
            socket: socket.clone(),
            client: PluginClient::new(&socket.path),
            history: ProbeHistory::default(),
        };
        Self {
            read_timeout: settings.read_timeout,
            round_trip_interval: settings.deep_probe_interval,
            round_trip_due: settings.deep_probe_interval.map(|_| Instant::now()),
            monitored: settings.sockets.iter().map(monitored).collect(),
            metrics: metrics.clone(),
        }
    }

    /// Fills in key ids that a previous process published, for plugins whose key id is still unknown.
    pub(super) fn adopt_key_ids(&mut self, key_ids: &[(String, String)], reports: &mut [ProbeReport]) {
        for (number, key_id) in key_ids {
            for plugin in self.monitored.iter_mut().filter(|plugin| plugin.socket.key_number == *number) {
                plugin.history.restore_key_id(key_id);
            }
            for report in reports.iter_mut().filter(|report| report.key_number == *number) {
                report.last_key_id.get_or_insert_with(|| key_id.clone());
            }
        }
    }

    /// Probes all plugins concurrently. Takes as long as the slowest one, which is bounded by the read timeout.
    pub(super) async fn probe_all(&mut self) -> Vec<ProbeReport> {
        let round_trip_due = self.is_round_trip_due();
        let timeout = self.read_timeout;
        let mut probes = JoinSet::new();
        for (index, plugin) in self.monitored.iter().enumerate() {
            let with_round_trip = round_trip_due || plugin.history.has_failed_round_trip();
            probes.spawn(probe(index, plugin.client.clone(), timeout, with_round_trip));
        }
        let mut reports: Vec<Option<ProbeReport>> = vec![None; self.monitored.len()];
        while let Some(joined) = probes.join_next().await {
            // A probe that panicked is filled in below.
            let Ok(result) = joined else { continue };
            let index = result.index;
            if let Some(report) = reports.get_mut(index) {
                *report = self.judge(result);
            }
        }
        for (index, report) in reports.iter_mut().enumerate() {
            if report.is_none() {
                *report = self.judge(ProbeResult {
                    index,
                    status: Err(CallError::Protocol("probe aborted".into())),
                    round_trip: None,
                    took: Duration::ZERO,
                    checked: Time(Timestamp::now()),
                });
            }
        }
        reports.into_iter().flatten().collect()
    }

    fn is_round_trip_due(&mut self) -> bool {
        let (Some(interval), Some(due)) = (self.round_trip_interval, self.round_trip_due) else {
            return false;
        };
        let now = Instant::now();
        if now < due {
            return false;
        }
        self.round_trip_due = Some(now + cadence::period(interval, fastrand::f64()));
        true
    }

    fn judge(&mut self, result: ProbeResult) -> Option<ProbeReport> {
        let ProbeResult { index, status, round_trip, took, checked } = result;
        let MonitoredPlugin { socket, history, .. } = self.monitored.get_mut(index)?;
        if let Some(result) = round_trip {
            history.record_round_trip(result);
        }
        let previous_key_id = history.last_key_id().map(str::to_owned);
        let (health, change) = history.record_status(&status);
        let key = socket.key_number.as_str();
        self.metrics.record_probe(key, &health, took);
        if change.status {
            let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let cause = health.cause.map(Cause::name).unwrap_or_default();
            let detail = health.detail.as_deref().unwrap_or_default();
            if health.status == PluginStatus::Healthy {
                tracing::info!(key, milliseconds, "plugin healthy");
            } else {
                tracing::warn!(key, class = ?health.status, cause, detail, milliseconds, "plugin not healthy");
            }
        }
        if change.key_id {
            let hash = |id: Option<&str>| id.map(fingerprint).unwrap_or_default();
            tracing::info!(
                key,
                before = hash(previous_key_id.as_deref()),
                after = hash(health.key_id.as_deref()),
                "KMS key id changed"
            );
        }
        let last_key_id = history.last_key_id().map(str::to_owned);
        Some(ProbeReport { key_number: socket.key_number.clone(), health, last_key_id, checked })
    }
}

/// Returns the start of a key id's hash. Key ids reveal where a KMS is and what it holds, so they are not logged.
fn fingerprint(id: &str) -> String {
    Sha256::digest(id.as_bytes())
        .iter()
        .take(6)
        .fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

async fn probe(index: usize, plugin: PluginClient, timeout: Duration, with_round_trip: bool) -> ProbeResult {
    let start = Instant::now();
    let status = plugin.status(timeout).await;
    let took = start.elapsed();
    let round_trip = match &status {
        Ok(answer) if with_round_trip => Some(round_trip(&plugin, &answer.key_id, timeout).await),
        _ => None,
    };
    ProbeResult { index, status, round_trip, took, checked: Time(Timestamp::now()) }
}

/// Encrypts and decrypts a sample; the timeout bounds both calls together.
async fn round_trip(plugin: &PluginClient, key_id: &str, timeout: Duration) -> Result<(), String> {
    let text: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(SAMPLE_LENGTH).collect();
    let uid = format!("outrigger-{:08x}", fastrand::u32(..));
    let start = Instant::now();
    let encrypted =
        plugin.encrypt(&text, &uid, timeout).await.map_err(|error| format!("Encrypt: {error}"))?;
    round_trip::check_encrypt_reply(&text, key_id, &encrypted).map_err(|error| error.to_string())?;
    let remaining = timeout.saturating_sub(start.elapsed());
    let decrypted =
        plugin.decrypt(&encrypted, &uid, remaining).await.map_err(|error| format!("Decrypt: {error}"))?;
    round_trip::check_plaintext(&text, &decrypted).map_err(|error| error.to_string())
}
