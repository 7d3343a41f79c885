//! The program that the test-bed's own images hold: the process that keeps a pod's namespaces, a small web server and
//! its client, a KMS plugin; and the first process of a node.

mod client;
mod init;
mod kms_plugin;
mod reaper;
mod server;

pub(crate) use init::KERNEL_SETTINGS;
pub use kms_plugin::GOOD_SECRET_ID;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::error::{Error, Result};

/// What runs inside pods and nodes of the test-bed.
#[derive(Parser)]
#[command(name = "testbed-pod", version)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Be the first process of a node: make its mounts, then reap what its programs leave.
    Init(init::Box),
    /// Hold the namespaces of a pod.
    Pause,
    /// Answer HTTP: `/healthz` with 200, everything else with a line that names this pod.
    Serve {
        /// The port to listen on.
        #[arg(long)]
        port: u16,
        /// What the line begins with.
        #[arg(long, default_value = "hello from")]
        message: String,
    },
    /// Stand in for the exporter of the chain's metrics, started as it is: listen, and export nothing.
    Exporter {
        /// The arguments of the exporter.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Be a KMS v2 plugin, as one of Vault is started.
    KmsPlugin {
        /// The arguments of Vault's.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Fetch a URL and print what comes; anything but 2xx is a failure.
    Get {
        /// The address: http or https.
        url: http::Uri,
        /// Whom to trust, in PEM; needed for https.
        #[arg(long)]
        authority: Option<PathBuf>,
        /// A file with a bearer token to send.
        #[arg(long)]
        token: Option<PathBuf>,
        /// How long it may take, in seconds.
        #[arg(long, default_value = "10", value_parser = seconds)]
        within: Duration,
    },
}

/// Does what the command line asks for.
pub fn run(Args { command }: Args) -> Result<()> {
    match command {
        Command::Init(node) => init::run(&node),
        Command::Pause => reaper::run(),
        Command::Serve { port, message } => server::run(port, &message),
        Command::Exporter { args } => server::run(listen_port(&args)?, "no metrics from"),
        Command::KmsPlugin { args } => kms_plugin::run(&args),
        Command::Get { url, authority, token, within } => {
            let body = client::get(&url, authority.as_deref(), token.as_deref(), within)?;
            println!("{}", body.trim_end());
            Ok(())
        }
    }
}

/// The port in `--listen-address=HOST:PORT`.
fn listen_port(args: &[String]) -> Result<u16> {
    let address = args.iter().find_map(|arg| arg.strip_prefix("--listen-address="));
    let port = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
    port.ok_or_else(|| Error::Refused(format!("--listen-address=HOST:PORT is missing in {args:?}")))
}

fn seconds(text: &str) -> std::result::Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
