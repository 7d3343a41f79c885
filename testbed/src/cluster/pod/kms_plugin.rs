//! The fake KMS plugin as a container with the interface of the Vault plugin: the same arguments, credentials in files.

use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, IoContext, Result};
use crate::fakes::kms_plugin::FakeKmsPlugin;

/// The accepted AppRole secret ID. With any other one, the plugin runs and reports itself unhealthy.
pub const GOOD_SECRET_ID: &str = "secret-456";

/// Serves until SIGTERM.
pub(super) fn run(args: &[String]) -> Result<()> {
    let value = |flag: &str| {
        let found = args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
        found.ok_or_else(|| Error::Other(format!("missing {flag} in {args:?}")))
    };
    let socket = value("-listen-address")?;
    let socket = socket.strip_prefix("unix://").map(Path::new);
    let parts = socket.and_then(|path| Some((path.parent()?, path.file_stem()?.to_str()?)));
    let (dir, name) =
        parts.ok_or_else(|| Error::Other("invalid -listen-address: expected unix:///PATH".into()))?;
    let file = value("-approle-secret-id-path")?;
    let secret_id = std::fs::read_to_string(file).context(|| format!("reading {file}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context(|| "starting a runtime".to_owned())?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context(|| "listening for signals".to_owned())?;
        let plugin = FakeKmsPlugin::start(name, dir)?;
        if secret_id != GOOD_SECRET_ID {
            plugin.script(|script| script.healthz = b"login: invalid secret id".to_vec());
        }
        println!("listening on {}", plugin.socket().display());
        terminate.recv().await;
        Ok(())
    })
}
