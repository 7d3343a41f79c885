//! Validates the reporter's flags in the order of the upstream reporter. Only the first invalid flag is reported, in one line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::kms::KmsTarget;
use plan::kms::publication::{Publication, PublishFormat, field_manager};
use runtime::settings::LoopbackAddress;
use runtime::settings::parse::{listen_address, loopback_address, optional_duration};
use runtime::telemetry::Format;

use super::args::{Args, ProcessArgs, PublishArgs, UpstreamArgs};
use crate::socket::PluginSocket;

/// Validated settings of the reporter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Plugin sockets, in the order of reports.
    pub sockets: Vec<PluginSocket>,
    /// Timeout of a plugin call.
    pub read_timeout: Duration,
    /// Timeout of publishing to one API server.
    pub write_timeout: Duration,
    /// Time between two Encrypt and Decrypt round trips; `None` disables them.
    pub deep_probe_interval: Option<Duration>,
    /// Node, object and format of the reports.
    pub publication: Publication,
    /// Field manager.
    pub manager: String,
    /// API servers, in the order in which they are tried.
    pub servers: Vec<Server>,
    /// Address of the metrics and health server.
    pub metrics: Option<SocketAddr>,
    /// Address of the admin server.
    pub admin: Option<LoopbackAddress>,
    /// Initial log filter.
    pub log_level: String,
    /// Log format.
    pub log_format: Format,
    /// Warnings about valid but inadvisable settings, one sentence each.
    pub warnings: Vec<String>,
}

/// How to reach an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// With a kubeconfig.
    Kubeconfig(PathBuf),
    /// With the pod's service account.
    InCluster,
    /// At this URL, with the credentials of the first server.
    Url(http::Uri),
}

impl Settings {
    /// Returns the time between two rounds.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.publication.interval
    }
}

/// The first invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl TryFrom<Args> for Settings {
    type Error = InvalidSetting;

    fn try_from(args: Args) -> Result<Self, InvalidSetting> {
        validate(args).map_err(InvalidSetting)
    }
}

fn validate(args: Args) -> Result<Settings, String> {
    let Args { upstream, publish, process } = args;
    let UpstreamArgs {
        kms_sockets,
        interval,
        read_timeout,
        write_timeout,
        node_name,
        kubeconfig,
        socket_dir,
        deep_probe_interval,
    } = upstream;
    let ProcessArgs { metrics_bind_address, admin_bind_address, log_level, log_format } = process;

    let sockets = parse_sockets(&kms_sockets, Path::new(&socket_dir))?;
    let interval = parse_positive("--interval", &interval)?;
    let read_timeout = parse_positive("--read-timeout", &read_timeout)?;
    let write_timeout = parse_positive("--write-timeout", &write_timeout)?;
    let node = parse_node(node_name)?;
    // Flags that the upstream reporter does not have follow.
    let deep_probe_interval =
        optional_duration(&deep_probe_interval).map_err(|error| format!("--deep-probe-interval: {error}"))?;
    let PublishArgs { publish, target, target_name, fallback_servers, instance } = publish;
    let (format, target) = parse_format_and_target(publish.as_deref(), target.as_deref())?;
    if !is_subdomain(&target_name) {
        return Err(format!(
            "invalid --target-name {target_name:?}: expected a lowercase RFC 1123 subdomain"
        ));
    }
    let mut servers = vec![match kubeconfig.as_str() {
        "" => Server::InCluster,
        path => Server::Kubeconfig(path.into()),
    }];
    for text in &fallback_servers {
        servers.push(parse_server(text)?);
    }
    let mut warnings = Vec::new();
    // The timeouts are not shortened: a server slower than the rest of the interval would never get a report.
    if read_timeout.saturating_add(write_timeout) >= interval {
        warnings.push(format!(
            "--read-timeout plus --write-timeout ({:?}) is not less than --interval ({interval:?}): a slow round delays the \
             next one",
            read_timeout.saturating_add(write_timeout)
        ));
    }
    Ok(Settings {
        sockets,
        read_timeout,
        write_timeout,
        deep_probe_interval,
        manager: field_manager(&node, instance.as_deref().filter(|instance| !instance.is_empty())),
        publication: Publication { target, name: target_name, format, node, interval },
        servers,
        metrics: optional_address("--metrics-bind-address", &metrics_bind_address, listen_address)?,
        admin: optional_address("--admin-bind-address", &admin_bind_address, loopback_address)?,
        log_level,
        log_format: log_format.parse().map_err(|error| format!("--log-format: {error}"))?,
        warnings,
    })
}

fn parse_sockets(addresses: &[String], dir: &Path) -> Result<Vec<PluginSocket>, String> {
    if addresses.is_empty() {
        return Err(format!(
            "--kms-sockets is required: expected addresses like unix://{}/kms-1.sock",
            dir.display()
        ));
    }
    let mut sockets: Vec<PluginSocket> = Vec::new();
    for address in addresses {
        let socket = PluginSocket::parse(address, dir)?;
        if sockets.contains(&socket) {
            return Err(format!("invalid --kms-sockets: {address:?} is listed twice"));
        }
        sockets.push(socket);
    }
    Ok(sockets)
}

fn parse_positive(flag: &str, text: &str) -> Result<Duration, String> {
    let time = optional_duration(text).map_err(|error| format!("{flag}: {error}"))?;
    time.ok_or_else(|| format!("invalid {flag} {text:?}: must be greater than 0"))
}

fn parse_node(name: String) -> Result<String, String> {
    if name.is_empty() {
        return Err("--node-name is required".into());
    }
    if !is_subdomain(&name) {
        return Err(format!(
            "invalid --node-name {name:?}: expected a lowercase RFC 1123 subdomain of at most 253 characters"
        ));
    }
    Ok(name)
}

/// Reports whether a name is an RFC 1123 subdomain, as most Kubernetes objects require.
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(allowed) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Parses `--publish` and `--target`. If only one is set, it decides the other.
fn parse_format_and_target(
    format: Option<&str>,
    target: Option<&str>,
) -> Result<(PublishFormat, KmsTarget), String> {
    let target = target
        .map(|name| name.parse::<KmsTarget>().map_err(|error| format!("invalid --target {name:?}: {error}")))
        .transpose()?;
    let format = match format {
        None if target == Some(KmsTarget::KmsHealth) => PublishFormat::KmsHealth,
        None | Some("condition") => PublishFormat::Condition,
        Some("typed") => PublishFormat::Typed,
        Some("kmshealth") => PublishFormat::KmsHealth,
        Some(other) => {
            return Err(format!("invalid --publish {other:?}: expected condition, typed or kmshealth"));
        }
    };
    let default =
        if format == PublishFormat::KmsHealth { KmsTarget::KmsHealth } else { KmsTarget::KubeApiServer };
    let target = target.unwrap_or(default);
    if (format == PublishFormat::KmsHealth) != (target == KmsTarget::KmsHealth) {
        return Err(format!(
            "--publish does not support --target {target}: kmshealth requires kmshealth, condition and typed require another target"
        ));
    }
    Ok((format, target))
}

fn parse_server(text: &str) -> Result<Server, String> {
    let invalid = || {
        format!(
            "invalid --fallback-servers {text:?}: expected an https:// URL, an absolute path to a kubeconfig, or in-cluster"
        )
    };
    match text {
        "in-cluster" => Ok(Server::InCluster),
        path if path.starts_with('/') => Ok(Server::Kubeconfig(path.into())),
        address => {
            let uri: http::Uri = address.parse().map_err(|_| invalid())?;
            if uri.scheme_str() == Some("https") && uri.host().is_some() {
                Ok(Server::Url(uri))
            } else {
                Err(invalid())
            }
        }
    }
}

fn optional_address<T>(
    flag: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    parse(text).map_err(|error| format!("{flag}: {error}"))
}
