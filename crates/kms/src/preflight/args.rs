//! Arguments of `kms-preflight`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::names::kms::pod::SOCKET_FOLDER;
use runtime::client::ClientOptions;

use crate::socket::PluginSocket;

/// Arguments of `kms-preflight`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Comma-separated plugin sockets. The first is checked with Encrypt and Decrypt, the others only with Status
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', required = true)]
    kms_sockets: Vec<String>,
    /// Timeout of each call
    #[arg(long, value_name = "DURATION", value_parser = runtime::settings::parse::duration)]
    kms_call_timeout: Duration,
    /// Hash of the checked configuration, recorded with the result
    #[arg(long, value_name = "HASH")]
    config_hash: String,
    /// Name of this pod
    #[arg(long, value_name = "NAME")]
    pod_name: String,
    /// Namespace of this pod
    #[arg(long, value_name = "NAMESPACE")]
    pod_namespace: String,
    /// Path to a kubeconfig; defaults to the pod's service account
    #[arg(long, value_name = "FILE", default_value = "")]
    kubeconfig: String,
    /// Directory of the sockets
    #[arg(long, value_name = "DIR", default_value = SOCKET_FOLDER)]
    socket_dir: String,
}

/// Validated arguments.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) sockets: Vec<String>,
    pub(super) call_timeout: Duration,
    pub(super) config_hash: String,
    pub(super) pod_name: String,
    pub(super) pod_namespace: String,
    pub(super) access: ClientOptions,
}

impl TryFrom<Args> for Settings {
    type Error = String;

    fn try_from(args: Args) -> Result<Self, String> {
        let mut sockets: Vec<String> = Vec::new();
        for socket in args.kms_sockets {
            PluginSocket::parse(&socket, Path::new(&args.socket_dir))?;
            if sockets.contains(&socket) {
                return Err(format!("invalid --kms-sockets: {socket:?} is listed twice"));
            }
            sockets.push(socket);
        }
        for (flag, value) in [
            ("--config-hash", &args.config_hash),
            ("--pod-name", &args.pod_name),
            ("--pod-namespace", &args.pod_namespace),
        ] {
            if value.is_empty() {
                return Err(format!("invalid {flag}: must not be empty"));
            }
        }
        let kubeconfig = Some(args.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Self {
            sockets,
            call_timeout: args.kms_call_timeout,
            config_hash: args.config_hash,
            pod_name: args.pod_name,
            pod_namespace: args.pod_namespace,
            access: ClientOptions { kubeconfig, context: None },
        })
    }
}
