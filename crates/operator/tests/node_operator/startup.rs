//! How the operator starts: not at all, with wrong settings.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use testbed::harness::binaries;
use testbed::{Context, Error, Site, TestResult};

use crate::ground::PLATFORM;

/// A server in the API server's place that must never be asked, and a configuration that leads to it.
struct Trap {
    listener: TcpListener,
    kubeconfig: PathBuf,
    /// The folder that the configuration lies in.
    _site: Arc<Site>,
}

impl Trap {
    fn set(cx: &Context) -> Result<Self, Error> {
        let failed = |source| Error::Io { what: "setting a trap".into(), source };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let site = cx.site()?;
        let kubeconfig = site.dir().join("trap.yaml");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).map_err(failed)?;
        Ok(Self { listener, kubeconfig, _site: site })
    }

    /// Runs the operator until it ends, with these settings and nothing else.
    fn run(&self, variables: &[(&str, &str)], flags: &[&str]) -> Result<Output, Error> {
        Command::new(binaries::path("outrigger")?)
            .arg("operator")
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(flags)
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .map_err(|source| Error::Io { what: "running the operator".into(), source })
    }

    fn assert_untouched(&self) {
        let error = self.listener.accept().expect_err("the API server was asked");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

pub async fn without_settings_everything_that_is_missing_is_told_before_any_request(
    cx: Context,
) -> TestResult {
    let trap = Trap::set(&cx)?;
    let ended = trap.run(&[], &[])?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    for (name, _) in PLATFORM {
        // There for the manifests of the operator before us: no node is of a kind that would use it.
        if name != "SEI_STORAGE_CLASS_DEFAULT" {
            assert!(said.contains(name), "{name} is not told: {said}");
        }
    }
    trap.assert_untouched();
    Ok(())
}

pub async fn three_wrong_settings_are_told_in_one_message_before_any_request(cx: Context) -> TestResult {
    let trap = Trap::set(&cx)?;
    let mut variables = PLATFORM.to_vec();
    variables.push(("SEI_RESOURCE_CPU_DEFAULT", "plenty"));
    variables.push(("SEI_STORAGE_SIZE_ARCHIVE", "40Gigs"));
    let ended = trap.run(&variables, &["--max-concurrent-reconciles=none"])?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    for name in ["SEI_RESOURCE_CPU_DEFAULT", "SEI_STORAGE_SIZE_ARCHIVE", "--max-concurrent-reconciles"] {
        assert_eq!(said.matches(name).count(), 1, "{name}: {said}");
    }
    assert!(!said.contains("SEI_SNAPSHOT_BUCKET"), "nothing is wrong with it: {said}");
    trap.assert_untouched();
    Ok(())
}
