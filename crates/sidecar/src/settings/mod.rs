//! Settings. All of them are validated before the sidecar does anything.

mod args;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use runtime::setting;
use runtime::settings::{InvalidSettings, Validator, parse};
use runtime::telemetry::Format;

pub use self::args::Args;

/// How clients are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthnMode {
    /// Every client is accepted.
    Unauthenticated,
    /// Only a proxy on the same host is accepted; it names the user in a header.
    TrustedHeader,
}

impl AuthnMode {
    /// Parses a mode strictly: a misspelled mode must not disable authentication.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "unauthenticated" => Ok(Self::Unauthenticated),
            "trusted-header" => Ok(Self::TrustedHeader),
            _ => Err(format!("invalid mode {text:?}: use unauthenticated or trusted-header")),
        }
    }
}

/// An S3 bucket or a local directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The bucket name, or `file:///DIR`.
    pub name: String,
    /// The region.
    pub region: String,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Home directory of the node.
    pub home: PathBuf,
    /// Chain ID.
    pub chain_id: String,
    /// Bucket for genesis files.
    pub genesis: Bucket,
    /// Bucket for snapshots.
    pub snapshots: Bucket,
    /// URL of the node's RPC.
    pub node_rpc: String,
    /// Port of the API.
    pub port: u16,
    /// How clients are authenticated.
    pub authn: AuthnMode,
    /// Interval between snapshot uploads.
    pub snapshot_upload_interval: Duration,
    /// Timeout of one snapshot upload.
    pub snapshot_upload_timeout: Duration,
    /// Maximum unpacked size of an archive in bytes.
    pub snapshot_max_bytes: u64,
    /// Maximum number of tasks in progress.
    pub max_tasks: u32,
    /// Maximum number of tasks that work at the same time.
    pub max_working_tasks: usize,
    /// How long finished tasks are kept.
    pub keep_tasks_for: Duration,
    /// Log level.
    pub log_level: String,
    /// Log format.
    pub log_format: Format,
}

/// Upstream's default, which it also uses for intervals that are zero or negative.
const DEFAULT_UPLOAD_INTERVAL: Duration = Duration::from_secs(168 * 3600);

impl Settings {
    /// Returns the address to listen on: localhost only in trusted-header mode.
    #[must_use]
    pub fn listen_address(&self) -> SocketAddr {
        match self.authn {
            AuthnMode::TrustedHeader => (Ipv4Addr::LOCALHOST, self.port).into(),
            AuthnMode::Unauthenticated => (Ipv6Addr::UNSPECIFIED, self.port).into(),
        }
    }
}

impl TryFrom<Args> for Settings {
    type Error = InvalidSettings;

    fn try_from(args: Args) -> Result<Self, InvalidSettings> {
        let mut validator = Validator::new::<Args>("sidecar");
        let Args { node, api, tasks, process } = args;
        let any = |text: &str| Ok::<_, String>(text.to_owned());
        let settings = Self {
            // As in upstream, an empty home means the default.
            home: Some(node.home.trim()).filter(|home| !home.is_empty()).unwrap_or("/sei").into(),
            chain_id: validator.required(setting!(node.chain_id), parse_chain_id),
            genesis: Bucket {
                name: validator.required(setting!(node.genesis_bucket), any),
                region: validator.required(setting!(node.genesis_region), any),
            },
            snapshots: Bucket {
                name: validator.required(setting!(node.snapshot_bucket), any),
                region: validator.required(setting!(node.snapshot_region), any),
            },
            node_rpc: validator.read(setting!(node.node_rpc), parse_rpc_url).unwrap_or_default(),
            port: validator.read(setting!(api.port), parse_port).unwrap_or_default(),
            authn: match AuthnMode::parse(&api.authn_mode) {
                Ok(authn) => authn,
                Err(message) => {
                    validator.add_problem("authn_mode", message);
                    AuthnMode::TrustedHeader
                }
            },
            snapshot_upload_interval: validator
                .read(setting!(tasks.snapshot_upload_interval), parse_interval)
                .unwrap_or(DEFAULT_UPLOAD_INTERVAL),
            snapshot_upload_timeout: validator
                .read(setting!(tasks.snapshot_upload_timeout), parse::duration)
                .unwrap_or_default(),
            snapshot_max_bytes: validator
                .read(setting!(tasks.snapshot_max_gib), parse_gib)
                .unwrap_or_default(),
            max_tasks: validator.read(setting!(tasks.max_tasks), parse::count).unwrap_or_default() as u32,
            max_working_tasks: validator
                .read(setting!(tasks.max_working_tasks), parse::count)
                .unwrap_or_default(),
            keep_tasks_for: validator
                .read(setting!(tasks.keep_tasks_for), parse::duration)
                .unwrap_or_default(),
            log_level: process.log_level.clone(),
            log_format: validator.read(setting!(process.log_format), str::parse).unwrap_or_default(),
        };
        validator.optional(setting!(tasks.keyring_backend), |text| match text {
            "test" | "file" | "os" => Ok(()),
            _ => Err(format!("invalid keyring backend {text:?}: use test, file or os, or omit it")),
        });
        validator.finish().map(|()| settings)
    }
}

/// The chain ID becomes part of object keys and metric labels.
fn parse_chain_id(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.len() <= 64
        && text.chars().all(is_allowed)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        return Ok(text.to_owned());
    }
    Err(format!("invalid chain ID {text:?}: use letters, digits, -, _ and ., for example pacific-1"))
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("invalid port {text:?}: use a number such as 7777"))
}

fn parse_rpc_url(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("invalid URL {text:?}: expected http:// or https://, for example http://localhost:26657"))
}

fn parse_gib(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=1 << 20).contains(number));
    number
        .map(|number| number << 30)
        .ok_or_else(|| format!("invalid size {text:?}: use a number of GiB such as 4096"))
}

/// As in upstream, empty, zero and negative values mean the default.
fn parse_interval(text: &str) -> Result<Duration, String> {
    Ok(parse::optional_duration(text)?.unwrap_or(DEFAULT_UPLOAD_INTERVAL))
}

#[cfg(test)]
mod tests;
