//! Settings. All of them are validated before the sidecar does anything.

mod args;
mod listen;

use std::path::PathBuf;
use std::time::Duration;

use runtime::setting;
use runtime::settings::{InvalidSettings, Validator, parse};
use runtime::telemetry::Format;

pub use self::args::Args;
use self::args::NodeArgs;
pub use self::listen::Listen;

/// How clients are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthnMode {
    /// Every client on the same host is accepted.
    Unauthenticated,
    /// Only a proxy on the same host is accepted; it names the user in a header. The default.
    TrustedHeader,
}

impl AuthnMode {
    /// Parses a mode strictly: a misspelled mode must not disable authentication.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "trusted-header" => Ok(Self::TrustedHeader),
            "unauthenticated" => Ok(Self::Unauthenticated),
            _ => Err(format!("invalid mode {text:?}: use trusted-header or unauthenticated")),
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

/// The destination of exported block results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultExport {
    /// The bucket.
    pub bucket: Bucket,
    /// The key prefix, without slashes at its ends.
    pub prefix: String,
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
    /// Where block results are exported to; `None` if exporting is not configured.
    pub result_export: Option<ResultExport>,
    /// URL of the node's RPC.
    pub node_rpc: String,
    /// Control directory of seid; `None` if seid is stopped by signals.
    pub seid_control_dir: Option<PathBuf>,
    /// Directory that no other container mounts; `None` if there is none.
    pub private_dir: Option<PathBuf>,
    /// Whether the node publishes snapshots.
    pub publish_snapshots: bool,
    /// Where the API listens.
    pub listen: Listen,
    /// Port of the API, or of `/v0/healthz` if the API listens on a Unix socket.
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

impl TryFrom<Args> for Settings {
    type Error = InvalidSettings;

    fn try_from(args: Args) -> Result<Self, InvalidSettings> {
        let mut validator = Validator::new::<Args>("sidecar");
        let Args { node, api, tasks, process } = args;
        let any = |text: &str| Ok::<_, String>(text.to_owned());
        let port = validator.read(setting!(api.port), parse_port).unwrap_or_default();
        let authn = AuthnMode::parse(&api.authn_mode).unwrap_or_else(|message| {
            validator.add_problem("authn_mode", message);
            AuthnMode::TrustedHeader
        });
        let listen = validator.optional(setting!(api.listen), Listen::parse);
        let listen = listen.unwrap_or_else(|| Listen::Tcp(Listen::loopback(port)));
        if listen.is_remote() {
            // In both modes a client on another host could act as any user.
            validator.add_problem(
                "listen",
                "must be unix:PATH or a loopback address, because the sidecar cannot authenticate clients on other hosts: run a proxy \
                 such as outrigger proxy in front of it",
            );
        }
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
            result_export: read_result_export(&mut validator, &node),
            node_rpc: validator.read(setting!(node.node_rpc), parse_rpc_url).unwrap_or_default(),
            seid_control_dir: validator.optional(setting!(node.seid_control_dir), parse_absolute_path),
            private_dir: validator.optional(setting!(node.private_dir), parse_absolute_path),
            publish_snapshots: validator
                .read(setting!(node.publish_snapshots), parse::boolean)
                .unwrap_or_default(),
            listen,
            port,
            authn,
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

/// Reads the destination of exports: both bucket and region, or neither.
fn read_result_export(validator: &mut Validator, node: &NodeArgs) -> Option<ResultExport> {
    let any = |text: &str| Ok::<_, String>(text.to_owned());
    let name = validator.optional(setting!(node.result_export_bucket), any);
    let region = validator.optional(setting!(node.result_export_region), any);
    let prefix = validator.optional(setting!(node.result_export_prefix), any).unwrap_or_default();
    let prefix = prefix.trim_matches('/').to_owned();
    match (name, region) {
        (Some(name), Some(region)) => Some(ResultExport { bucket: Bucket { name, region }, prefix }),
        (Some(_), None) => {
            validator.add_problem("result_export_region", "required with --result-export-bucket");
            None
        }
        (None, _) => None,
    }
}

fn parse_absolute_path(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') {
        return Ok(text.into());
    }
    Err(format!("invalid directory {text:?}: use an absolute path"))
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
