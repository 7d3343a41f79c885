//! `testbed-pod`, the program in the images of the testbed: pause process, HTTP server and client, fake KMS plugin. Also
//! the init process of nodes.

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

/// Program that runs in pods and nodes of the testbed.
#[derive(Parser)]
#[command(name = "testbed-pod", version)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run as the init process of a node: create its mounts and reap orphans.
    Init(init::InitArgs),
    /// Hold the namespaces of a pod.
    Pause,
    /// Serve HTTP: 200 on `/healthz`, a line with the name of this pod on other paths.
    Serve {
        /// Port to listen on.
        #[arg(long)]
        port: u16,
        /// Start of the line.
        #[arg(long, default_value = "hello from")]
        message: String,
    },
    /// Run as a fake cosmos-exporter: listen and export nothing.
    Exporter {
        /// Arguments of cosmos-exporter.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run as a fake KMS v2 plugin with the interface of the Vault plugin.
    KmsPlugin {
        /// Arguments of the Vault plugin.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Fetch a URL and print the body; fails unless the status is 2xx.
    Get {
        /// http or https URL.
        url: http::Uri,
        /// CA certificates in PEM; required for https.
        #[arg(long = "authority", value_name = "FILE")]
        ca: Option<PathBuf>,
        /// File with a bearer token.
        #[arg(long)]
        token: Option<PathBuf>,
        /// Timeout in seconds.
        #[arg(long = "within", default_value = "10", value_parser = seconds)]
        timeout: Duration,
    },
}

/// Runs the subcommand.
pub fn run(Args { command }: Args) -> Result<()> {
    match command {
        Command::Init(node) => init::run(&node),
        Command::Pause => reaper::run(),
        Command::Serve { port, message } => server::run(port, &message),
        Command::Exporter { args } => server::run(listen_port(&args)?, "no metrics from"),
        Command::KmsPlugin { args } => kms_plugin::run(&args),
        Command::Get { url, ca, token, timeout } => {
            let body = client::get(&url, ca.as_deref(), token.as_deref(), timeout)?;
            println!("{}", body.trim_end());
            Ok(())
        }
    }
}

/// Returns the port in `--listen-address=HOST:PORT`.
fn listen_port(args: &[String]) -> Result<u16> {
    let address = args.iter().find_map(|arg| arg.strip_prefix("--listen-address="));
    let port = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
    port.ok_or_else(|| Error::Other(format!("missing --listen-address=HOST:PORT in {args:?}")))
}

fn seconds(text: &str) -> std::result::Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
