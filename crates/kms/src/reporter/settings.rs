//! What the reporter is told at its start, checked in the order of the reporter that we replace: the first violation is told, in
//! one line. After that nothing ends it but a signal.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::kms::publication::{Form, Publication, manager};
use plan::kms::target::Target;
use runtime::settings::text::duration_or_none;
use runtime::telemetry::Format;

use super::args::{Args, ProcessArgs, PublishArgs, UpstreamArgs};
use crate::socket::Socket;

/// Everything that the reporter was told, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The plugins' sockets, in the order of reports.
    pub sockets: Vec<Socket>,
    /// How long a plugin may take.
    pub read_timeout: Duration,
    /// How long the API server may take.
    pub write_timeout: Duration,
    /// Time between two tries to encrypt and decrypt, if there are any.
    pub deep_probe_interval: Option<Duration>,
    /// Who reports what where.
    pub publication: Publication,
    /// The field manager.
    pub manager: String,
    /// Ways to API servers, in the order in which they are tried.
    pub servers: Vec<Server>,
    /// Where metrics and health are served.
    pub admin: Option<SocketAddr>,
    /// What is logged at first.
    pub log_level: String,
    /// How log lines look.
    pub log_format: Format,
    /// What is allowed and not wise, one sentence each.
    pub warnings: Vec<String>,
}

/// A way to an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// By a kubeconfig.
    Kubeconfig(PathBuf),
    /// By the pod's service account.
    InCluster,
    /// At another address, with the credentials of the first.
    At(http::Uri),
}

impl Settings {
    /// Time between two looks.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.publication.interval
    }
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl TryFrom<Args> for Settings {
    type Error = Violation;

    fn try_from(args: Args) -> Result<Self, Violation> {
        read(args).map_err(Violation)
    }
}

fn read(args: Args) -> Result<Settings, String> {
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
    let ProcessArgs { metrics_bind_address, log_level, log_format } = process;

    let sockets = sockets(&kms_sockets, Path::new(&socket_dir))?;
    let interval = positive("--interval", &interval)?;
    let read_timeout = positive("--read-timeout", &read_timeout)?;
    let write_timeout = positive("--write-timeout", &write_timeout)?;
    let node = node(node_name)?;
    // From here on: what the reporter before does not know.
    let deep_probe_interval =
        duration_or_none(&deep_probe_interval).map_err(|error| format!("--deep-probe-interval: {error}"))?;
    let PublishArgs { publish, target, target_name, fallback_servers, instance } = publish;
    let (form, target) = form(publish.as_deref(), target.as_deref())?;
    if !is_subdomain(&target_name) {
        return Err(format!("--target-name: {target_name:?} is no name of an object: use one like cluster"));
    }
    let mut servers = vec![match kubeconfig.as_str() {
        "" => Server::InCluster,
        path => Server::Kubeconfig(path.into()),
    }];
    for text in &fallback_servers {
        servers.push(server(text)?);
    }
    let mut warnings = Vec::new();
    // Not shortened: a server that takes longer than is left of the interval would never get a report.
    if read_timeout.saturating_add(write_timeout) >= interval {
        warnings.push(format!(
            "--read-timeout and --write-timeout together ({:?}) are not shorter than --interval ({interval:?}): \
             a slow round delays the next one",
            read_timeout.saturating_add(write_timeout)
        ));
    }
    Ok(Settings {
        sockets,
        read_timeout,
        write_timeout,
        deep_probe_interval,
        manager: manager(&node, instance.as_deref().filter(|instance| !instance.is_empty())),
        publication: Publication { target, name: target_name, form, node, interval },
        servers,
        admin: admin(&metrics_bind_address)?,
        log_level,
        log_format: log_format.parse().map_err(|error| format!("--log-format: {error}"))?,
        warnings,
    })
}

fn sockets(addresses: &[String], folder: &Path) -> Result<Vec<Socket>, String> {
    if addresses.is_empty() {
        return Err(format!(
            "--kms-sockets is missing: give the plugins' sockets, like unix://{}/kms-1.sock",
            folder.display()
        ));
    }
    let mut sockets: Vec<Socket> = Vec::new();
    for address in addresses {
        let socket = Socket::parse(address, folder)?;
        if sockets.contains(&socket) {
            return Err(format!("--kms-sockets: {address:?} is there twice: give each socket once"));
        }
        sockets.push(socket);
    }
    Ok(sockets)
}

fn positive(flag: &str, text: &str) -> Result<Duration, String> {
    let time = duration_or_none(text).map_err(|error| format!("{flag}: {error}"))?;
    time.ok_or_else(|| format!("{flag} must be greater than 0, and is {text}: use one like 30s"))
}

fn node(name: String) -> Result<String, String> {
    if name.is_empty() {
        return Err("--node-name is missing: give the name of the node that this runs on".into());
    }
    if !is_subdomain(&name) {
        return Err(format!(
            "--node-name: {name:?} is no name of a node: it has lower-case letters, digits, - and ., 253 at most"
        ));
    }
    Ok(name)
}

/// A name as Kubernetes takes it for most objects.
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Form and target, of which each decides the other where only one is said.
fn form(form: Option<&str>, target: Option<&str>) -> Result<(Form, Target), String> {
    let words: Vec<&str> = Target::ALL.iter().map(|target| target.word()).collect();
    let target = target
        .map(|word| {
            Target::ALL
                .into_iter()
                .find(|target| target.word() == word)
                .ok_or_else(|| format!("--target: {word:?} is no target: use {}", words.join(", ")))
        })
        .transpose()?;
    let form = match form {
        None if target == Some(Target::KmsHealth) => Form::KmsHealth,
        None | Some("condition") => Form::Condition,
        Some("typed") => Form::Typed,
        Some("kmshealth") => Form::KmsHealth,
        Some(other) => {
            return Err(format!("--publish: {other:?} is no form: use condition, typed or kmshealth"));
        }
    };
    let usual = if form == Form::KmsHealth { Target::KmsHealth } else { Target::KubeApiServer };
    let target = target.unwrap_or(usual);
    if (form == Form::KmsHealth) != (target == Target::KmsHealth) {
        return Err(format!(
            "--publish and --target {} do not fit: kmshealth goes with kmshealth, condition and typed with the others",
            target.word()
        ));
    }
    Ok((form, target))
}

fn server(text: &str) -> Result<Server, String> {
    let refused = || {
        format!(
            "--fallback-servers: {text:?} is no server: use an https:// address, the absolute path of a kubeconfig, or in-cluster"
        )
    };
    match text {
        "in-cluster" => Ok(Server::InCluster),
        path if path.starts_with('/') => Ok(Server::Kubeconfig(path.into())),
        address => {
            let uri: http::Uri = address.parse().map_err(|_| refused())?;
            if uri.scheme_str() == Some("https") && uri.host().is_some() {
                Ok(Server::At(uri))
            } else {
                Err(refused())
            }
        }
    }
}

fn admin(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" || text.is_empty() {
        return Ok(None);
    }
    let address = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from(([0, 0, 0, 0], port))),
        None => text.parse().ok(),
    };
    address.map(Some).ok_or_else(|| {
        format!("--metrics-bind-address: {text:?} is no address: use one like 127.0.0.1:8080, or 0 for none")
    })
}
