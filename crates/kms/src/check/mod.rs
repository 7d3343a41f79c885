//! Checks plugins with every call that kube-apiserver makes, once. `outrigger kms-check` runs it by hand; the preflight runs it before a
//! configuration is used.

mod output;

use std::time::{Duration, Instant};

use api::kms::check::PluginCheck;
use plan::kms::check::{PluginReplies, TimedCall, evaluate, should_encrypt};

pub use self::output::{render_json, render_table};
use crate::probe::PluginClient;

/// Number of random bytes to encrypt: the size of a data encryption key.
const PLAINTEXT_LENGTH: usize = 32;

/// Arguments of `kms-check`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Plugin sockets: absolute paths, or addresses like unix:///var/run/kmsplugin/kms-1.sock
    #[arg(required = true, value_name = "SOCKET", value_parser = parse_socket)]
    pub sockets: Vec<String>,
    /// Timeout of each call
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = runtime::settings::parse::duration)]
    pub kms_call_timeout: Duration,
    /// Call only Status. Encrypt and Decrypt may be billed by the KMS
    #[arg(long)]
    pub status_only: bool,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// Human-readable table
    Table,
    /// JSON array with one object per socket
    Json,
}

fn parse_socket(text: &str) -> Result<String, String> {
    if socket_path(text).starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("expected an absolute path or a unix:// address with one".into())
    }
}

/// Returns the path of a socket address.
pub(crate) fn socket_path(address: &str) -> &str {
    address.strip_prefix("unix://").unwrap_or(address)
}

/// Checks all sockets concurrently, so that a plugin that hangs does not delay the others.
pub async fn run(args: &Args) -> Vec<PluginCheck> {
    let checks =
        args.sockets.iter().map(|socket| check_plugin(socket, args.kms_call_timeout, !args.status_only));
    futures_util::future::join_all(checks).await
}

/// Checks one plugin. `full` includes Encrypt and Decrypt.
pub(crate) async fn check_plugin(socket: &str, timeout: Duration, full: bool) -> PluginCheck {
    let plugin = PluginClient::new(socket_path(socket));
    let plaintext: [u8; PLAINTEXT_LENGTH] = std::array::from_fn(|_| fastrand::u8(..));
    let uid = format!("preflight-check-{}", hex(&plaintext[..4]));
    let status = timed(plugin.status(timeout)).await;
    let mut answers =
        PluginReplies { socket, plaintext: &plaintext, status, encrypted: None, decrypted: None };
    if full && should_encrypt(&answers.status) {
        let encrypted = timed(plugin.encrypt(&plaintext, &uid, timeout)).await;
        if let Ok(ciphertext) = &encrypted.result {
            answers.decrypted = Some(timed(plugin.decrypt(ciphertext, &uid, timeout)).await);
        }
        answers.encrypted = Some(encrypted);
    }
    evaluate(&answers, full)
}

async fn timed<T>(call: impl Future<Output = Result<T, plan::kms::call::CallError>>) -> TimedCall<T> {
    let start = Instant::now();
    let answer = call.await;
    TimedCall { result: answer, took: start.elapsed() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
