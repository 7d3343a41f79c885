//! The check of a plugin: everything that kube-apiserver asks of it, once. By hand it is `outrigger kms-check`; before a
//! configuration is used, the preflight does the same.

mod output;

use std::time::{Duration, Instant};

use api::kms::check::PluginCheck;
use plan::kms::check::{Answers, Timed, goes_on, judge};

pub use self::output::{json, table};
use crate::probe::Plugin;

/// How many random bytes are encrypted: as many as a key of data has.
const PLAINTEXT: usize = 32;

/// The arguments of `kms-check`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Sockets of plugins, as paths or like unix:///var/run/kmsplugin/kms-1.sock
    #[arg(required = true, value_name = "SOCKET", value_parser = socket)]
    pub sockets: Vec<String>,
    /// Deadline of each call
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = runtime::settings::text::duration)]
    pub kms_call_timeout: Duration,
    /// Only ask for the status: nothing is encrypted, which some KMS count and charge
    #[arg(long)]
    pub status_only: bool,
    /// How to print
    #[arg(long, short, value_enum, value_name = "NOTATION", default_value = "table")]
    pub output: Notation,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Notation {
    /// For people.
    Table,
    /// For programs: a list with an object for each socket.
    Json,
}

fn socket(text: &str) -> Result<String, String> {
    let path = path_of(text);
    if path.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("it must be an absolute path, or unix:// and one".into())
    }
}

/// The path of a socket's address.
pub(crate) fn path_of(address: &str) -> &str {
    address.strip_prefix("unix://").unwrap_or(address)
}

/// Checks all sockets, side by side: one that hangs holds no other up.
pub async fn run(args: &Args) -> Vec<PluginCheck> {
    let checks = args.sockets.iter().map(|socket| one(socket, args.kms_call_timeout, !args.status_only));
    futures_util::future::join_all(checks).await
}

/// Checks one plugin, once.
pub(crate) async fn one(socket: &str, within: Duration, full: bool) -> PluginCheck {
    let plugin = Plugin::at(path_of(socket));
    let plaintext: [u8; PLAINTEXT] = std::array::from_fn(|_| fastrand::u8(..));
    let uid = format!("preflight-check-{}", hexadecimal(&plaintext[..4]));
    let status = timed(plugin.status(within)).await;
    let mut answers = Answers { socket, plaintext: &plaintext, status, encrypted: None, decrypted: None };
    if full && goes_on(&answers.status) {
        let encrypted = timed(plugin.encrypt(&plaintext, &uid, within)).await;
        if let Ok(sealed) = &encrypted.answer {
            answers.decrypted = Some(timed(plugin.decrypt(sealed, &uid, within)).await);
        }
        answers.encrypted = Some(encrypted);
    }
    judge(&answers, full)
}

async fn timed<T>(call: impl Future<Output = Result<T, plan::kms::call::Failure>>) -> Timed<T> {
    let begin = Instant::now();
    let answer = call.await;
    Timed { answer, took: begin.elapsed() }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
