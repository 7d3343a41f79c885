//! The arguments of `kms-preflight`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::names::kms::pod::SOCKET_FOLDER;
use runtime::client::Access;

use crate::socket::Socket;

/// What to check, and where to say what was found.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Sockets of plugins, with commas between: the first one is checked in full, of others only the status
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', required = true)]
    kms_sockets: Vec<String>,
    /// Deadline of each call
    #[arg(long, value_name = "DURATION", value_parser = runtime::settings::text::duration)]
    kms_call_timeout: Duration,
    /// Hash of the configuration that is checked; it is posted with the result
    #[arg(long, value_name = "HASH")]
    config_hash: String,
    /// Name of the own pod
    #[arg(long, value_name = "NAME")]
    pod_name: String,
    /// Namespace of the own pod
    #[arg(long, value_name = "NAMESPACE")]
    pod_namespace: String,
    /// A kubeconfig; else the pod's service account
    #[arg(long, value_name = "FILE", default_value = "")]
    kubeconfig: String,
    /// Folder of the sockets
    #[arg(long, value_name = "DIR", default_value = SOCKET_FOLDER)]
    socket_dir: String,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) sockets: Vec<String>,
    pub(super) call_timeout: Duration,
    pub(super) config_hash: String,
    pub(super) pod_name: String,
    pub(super) pod_namespace: String,
    pub(super) access: Access,
}

impl TryFrom<Args> for Settings {
    type Error = String;

    fn try_from(args: Args) -> Result<Self, String> {
        let mut sockets: Vec<String> = Vec::new();
        for socket in args.kms_sockets {
            Socket::parse(&socket, Path::new(&args.socket_dir))?;
            if sockets.contains(&socket) {
                return Err(format!("--kms-sockets: {socket:?} is there twice: give it once"));
            }
            sockets.push(socket);
        }
        for (flag, value) in [
            ("--config-hash", &args.config_hash),
            ("--pod-name", &args.pod_name),
            ("--pod-namespace", &args.pod_namespace),
        ] {
            if value.is_empty() {
                return Err(format!("{flag} is empty: give a value"));
            }
        }
        let kubeconfig = Some(args.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Self {
            sockets,
            call_timeout: args.kms_call_timeout,
            config_hash: args.config_hash,
            pod_name: args.pod_name,
            pod_namespace: args.pod_namespace,
            access: Access { kubeconfig, context: None },
        })
    }
}
