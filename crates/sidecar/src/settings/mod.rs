//! What the sidecar is told at its start. Everything is checked before anything is begun.

mod args;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use runtime::setting;
use runtime::settings::{Check, Problems, text};
use runtime::telemetry::Format;

pub use self::args::Args;

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authn {
    /// Anybody who reaches it.
    Unauthenticated,
    /// Only a proxy on the same host, which names the caller in a header.
    TrustedHeader,
}

impl Authn {
    /// A word that is nearly one of them must not open the API.
    pub fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "unauthenticated" => Ok(Self::Unauthenticated),
            "trusted-header" => Ok(Self::TrustedHeader),
            _ => Err(format!("{text:?} is no mode: use unauthenticated or trusted-header")),
        }
    }
}

/// Where objects are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Its name, or `file:///FOLDER`.
    pub name: String,
    /// Its region.
    pub region: String,
}

/// What the sidecar was told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's home.
    pub home: PathBuf,
    /// The chain.
    pub chain_id: String,
    /// Genesis files.
    pub genesis: Bucket,
    /// Snapshots.
    pub snapshots: Bucket,
    /// The node's RPC.
    pub node_rpc: String,
    /// The port of the API.
    pub port: u16,
    /// Who may call.
    pub authn: Authn,
    /// Time between two uploads of snapshots.
    pub snapshot_upload_interval: Duration,
    /// How long one may take.
    pub snapshot_upload_timeout: Duration,
    /// How many bytes an archive may unpack to.
    pub snapshot_max_bytes: u64,
    /// How many tasks may be under way.
    pub max_tasks: u32,
    /// How many may work at once.
    pub max_working_tasks: usize,
    /// How long tasks are kept after their end.
    pub keep_tasks_for: Duration,
    /// What is logged.
    pub log_level: String,
    /// How log lines look.
    pub log_format: Format,
}

/// The default of the program that we replace, which it also takes for a period that makes no sense.
const UPLOAD_EVERY: Duration = Duration::from_secs(168 * 3600);

impl Settings {
    /// The addresses to listen on: in trusted-header mode only the host's own.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        match self.authn {
            Authn::TrustedHeader => (Ipv4Addr::LOCALHOST, self.port).into(),
            Authn::Unauthenticated => (Ipv6Addr::UNSPECIFIED, self.port).into(),
        }
    }
}

impl TryFrom<Args> for Settings {
    type Error = Problems;

    fn try_from(args: Args) -> Result<Self, Problems> {
        let mut check = Check::of::<Args>("sidecar");
        let Args { node, api, tasks, process } = args;
        let any = |text: &str| Ok::<_, String>(text.to_owned());
        let settings = Self {
            // Upstream takes an empty home for the default.
            home: Some(node.home.trim()).filter(|home| !home.is_empty()).unwrap_or("/sei").into(),
            chain_id: check.required(setting!(node.chain_id), chain),
            genesis: Bucket {
                name: check.required(setting!(node.genesis_bucket), any),
                region: check.required(setting!(node.genesis_region), any),
            },
            snapshots: Bucket {
                name: check.required(setting!(node.snapshot_bucket), any),
                region: check.required(setting!(node.snapshot_region), any),
            },
            node_rpc: check.read(setting!(node.node_rpc), rpc).unwrap_or_default(),
            port: check.read(setting!(api.port), port).unwrap_or_default(),
            authn: match Authn::read(&api.authn_mode) {
                Ok(authn) => authn,
                Err(why) => {
                    check.say("authn_mode", why);
                    Authn::TrustedHeader
                }
            },
            snapshot_upload_interval: check
                .read(setting!(tasks.snapshot_upload_interval), interval)
                .unwrap_or(UPLOAD_EVERY),
            snapshot_upload_timeout: check
                .read(setting!(tasks.snapshot_upload_timeout), text::duration)
                .unwrap_or_default(),
            snapshot_max_bytes: check.read(setting!(tasks.snapshot_max_gib), gib).unwrap_or_default(),
            max_tasks: check.read(setting!(tasks.max_tasks), text::count).unwrap_or_default() as u32,
            max_working_tasks: check.read(setting!(tasks.max_working_tasks), text::count).unwrap_or_default(),
            keep_tasks_for: check.read(setting!(tasks.keep_tasks_for), text::duration).unwrap_or_default(),
            log_level: process.log_level.clone(),
            log_format: check.read(setting!(process.log_format), str::parse).unwrap_or_default(),
        };
        check.optional(setting!(tasks.keyring_backend), |text| match text {
            "test" | "file" | "os" => Ok(()),
            _ => Err(format!("{text:?} is no keyring: use test, file or os, or leave it out")),
        });
        check.end().map(|()| settings)
    }
}

/// The chain's name is part of object keys and labels.
fn chain(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.len() <= 64 && text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no name of a chain: use letters, digits, -, _ and ., like pacific-1"))
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("{text:?} is no port: use one like 7777"))
}

fn rpc(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("{text:?} is no URL: use one like http://localhost:26657"))
}

fn gib(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=1 << 20).contains(number));
    number
        .map(|number| number << 30)
        .ok_or_else(|| format!("{text:?} is no number of GiB: use one like 4096"))
}

/// As upstream: nothing, zero and less are the default.
fn interval(text: &str) -> Result<Duration, String> {
    Ok(text::duration_or_none(text)?.unwrap_or(UPLOAD_EVERY))
}

#[cfg(test)]
mod tests;
