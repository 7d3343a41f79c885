//! One round: all plugins are looked at side by side, then one write carries all reports.

use std::time::{Duration, Instant};

use api::kms::{Cause, HealthStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use plan::kms::cadence;
use plan::kms::call::{Failure, StatusAnswer};
use plan::kms::history::History;
use plan::kms::publication::Report;
use plan::kms::round_trip;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use super::metrics::ReporterMetrics;
use super::settings::Settings;
use crate::probe::Plugin;
use crate::socket::Socket;

/// Bytes that are encrypted and decrypted for a deep look.
const SAMPLE_LENGTH: usize = 32;

/// The plugins of one node, and what is remembered of them.
pub(super) struct Plugins {
    read_timeout: Duration,
    deep_interval: Option<Duration>,
    deep_due: Option<Instant>,
    watched: Vec<Watched>,
    metrics: ReporterMetrics,
}

struct Watched {
    socket: Socket,
    plugin: Plugin,
    history: History,
}

/// One look, as it ended.
struct Look {
    index: usize,
    asked: Result<StatusAnswer, Failure>,
    /// How the try to encrypt and decrypt ended, if there was one.
    deep: Option<Result<(), String>>,
    took: Duration,
    checked: Time,
}

impl Plugins {
    pub(super) fn new(settings: &Settings, metrics: &ReporterMetrics) -> Self {
        let watched = |socket: &Socket| Watched {
            socket: socket.clone(),
            plugin: Plugin::at(&socket.path),
            history: History::default(),
        };
        Self {
            read_timeout: settings.read_timeout,
            deep_interval: settings.deep_probe_interval,
            deep_due: settings.deep_probe_interval.map(|_| Instant::now()),
            watched: settings.sockets.iter().map(watched).collect(),
            metrics: metrics.clone(),
        }
    }

    /// Takes over key ids that an earlier process knew, where none is known yet.
    pub(super) fn adopt(&mut self, key_ids: &[(String, String)], reports: &mut [Report]) {
        for (number, key_id) in key_ids {
            for watched in self.watched.iter_mut().filter(|watched| watched.socket.key_number == *number) {
                watched.history.adopt(key_id);
            }
            for report in reports.iter_mut().filter(|report| report.key_number == *number) {
                report.last_key_id.get_or_insert_with(|| key_id.clone());
            }
        }
    }

    /// Looks at all plugins side by side. It takes as long as the slowest, and none longer than allowed.
    pub(super) async fn look(&mut self) -> Vec<Report> {
        let deep = self.deep_is_due();
        let within = self.read_timeout;
        let mut looks = JoinSet::new();
        for (index, watched) in self.watched.iter().enumerate() {
            let deep = deep || watched.history.failed_round_trip();
            looks.spawn(look(index, watched.plugin.clone(), within, deep));
        }
        let mut reports: Vec<Option<Report>> = vec![None; self.watched.len()];
        while let Some(ended) = looks.join_next().await {
            // One that panicked is missed below.
            let Ok(ended) = ended else { continue };
            let index = ended.index;
            if let Some(place) = reports.get_mut(index) {
                *place = self.judge(ended);
            }
        }
        let missed = || Err(Failure::Protocol("the look at the plugin was broken off".into()));
        for (index, place) in reports.iter_mut().enumerate() {
            if place.is_none() {
                let (asked, checked) = (missed(), Time(Timestamp::now()));
                *place = self.judge(Look { index, asked, deep: None, took: Duration::ZERO, checked });
            }
        }
        reports.into_iter().flatten().collect()
    }

    fn deep_is_due(&mut self) -> bool {
        let (Some(interval), Some(due)) = (self.deep_interval, self.deep_due) else { return false };
        let now = Instant::now();
        if now < due {
            return false;
        }
        self.deep_due = Some(now + cadence::period(interval, fastrand::f64()));
        true
    }

    fn judge(&mut self, look: Look) -> Option<Report> {
        let Look { index, asked, deep, took, checked } = look;
        let Watched { socket, history, .. } = self.watched.get_mut(index)?;
        if let Some(ended) = deep {
            history.tried_round_trip(ended);
        }
        let before = history.last_key_id().map(str::to_owned);
        let (verdict, change) = history.look(&asked);
        let key = socket.key_number.as_str();
        self.metrics.looked(key, &verdict, took);
        if change.class {
            let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let cause = verdict.cause.map(Cause::name).unwrap_or_default();
            let detail = verdict.detail.as_deref().unwrap_or_default();
            if verdict.class == HealthStatus::Healthy {
                tracing::info!(key, milliseconds, "the plugin is healthy");
            } else {
                tracing::warn!(key, class = ?verdict.class, cause, detail, milliseconds, "the plugin is not healthy");
            }
        }
        if change.key_id {
            let hash = |id: Option<&str>| id.map(fingerprint).unwrap_or_default();
            tracing::info!(
                key,
                before = hash(before.as_deref()),
                after = hash(verdict.key_id.as_deref()),
                "the plugin uses another key of its KMS"
            );
        }
        let last_key_id = history.last_key_id().map(str::to_owned);
        Some(Report { key_number: socket.key_number.clone(), verdict, last_key_id, checked })
    }
}

/// Ids of keys tell where a KMS is and what is in it: logs have only a part of their hash.
fn fingerprint(id: &str) -> String {
    Sha256::digest(id.as_bytes())
        .iter()
        .take(6)
        .fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

async fn look(index: usize, plugin: Plugin, within: Duration, deep: bool) -> Look {
    let begin = Instant::now();
    let asked = plugin.status(within).await;
    let took = begin.elapsed();
    let deep = match &asked {
        Ok(answer) if deep => Some(round_trip(&plugin, &answer.key_id, within).await),
        _ => None,
    };
    Look { index, asked, deep, took, checked: Time(Timestamp::now()) }
}

/// Encrypts and decrypts, within the time of one look for both.
async fn round_trip(plugin: &Plugin, key_id: &str, within: Duration) -> Result<(), String> {
    let text: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(SAMPLE_LENGTH).collect();
    let uid = format!("outrigger-{:08x}", fastrand::u32(..));
    let begin = Instant::now();
    let encrypted = plugin.encrypt(&text, &uid, within).await.map_err(|error| format!("Encrypt: {error}"))?;
    round_trip::accept(&text, key_id, &encrypted).map_err(|error| error.to_string())?;
    let left = within.saturating_sub(begin.elapsed());
    let opened = plugin.decrypt(&encrypted, &uid, left).await.map_err(|error| format!("Decrypt: {error}"))?;
    round_trip::same(&text, &opened).map_err(|error| error.to_string())
}
