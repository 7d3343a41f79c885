//! Startup of the operator with invalid settings.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use testbed::harness::binaries;
use testbed::{Context, Error, Site, TestResult};

use crate::fixture::{Fixture, PLATFORM};

/// A listener in place of the API server that must not receive a connection, and a kubeconfig for it.
struct UnusedServer {
    listener: TcpListener,
    kubeconfig: PathBuf,
    /// The directory of the kubeconfig.
    _site: Arc<Site>,
}

impl UnusedServer {
    fn start(cx: &Context) -> Result<Self, Error> {
        let failed = |source| Error::Io { what: "preparing the unused server".into(), source };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let site = cx.site()?;
        let kubeconfig = site.dir().join("unused-server.yaml");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).map_err(failed)?;
        Ok(Self { listener, kubeconfig, _site: site })
    }

    /// Runs the operator with only these settings until it exits.
    fn run_operator(&self, variables: &[(&str, &str)], flags: &[&str]) -> Result<Output, Error> {
        Command::new(binaries::path("outrigger")?)
            .arg("operator")
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(flags)
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .map_err(|source| Error::Io { what: "running the operator".into(), source })
    }

    fn assert_unused(&self) {
        let error = self.listener.accept().expect_err("the API server received a connection");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

pub async fn missing_settings_are_reported_before_any_request(cx: Context) -> TestResult {
    let server = UnusedServer::start(&cx)?;
    let output = server.run_operator(&[], &[])?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for (name, _) in PLATFORM {
        // Accepted for manifests of the upstream controller, and not required.
        if name != "SEI_STORAGE_CLASS_DEFAULT" {
            assert!(stderr.contains(name), "{name} is not reported: {stderr}");
        }
    }
    server.assert_unused();
    Ok(())
}

/// Also if they are set in the environment, where a removed setting would otherwise be ignored.
pub async fn removed_settings_are_reported_before_any_request(cx: Context) -> TestResult {
    let server = UnusedServer::start(&cx)?;
    let mut variables = PLATFORM.to_vec();
    variables.push(("OUTRIGGER_PROXY_TOKEN_AUDIENCE", "sidecars.sei.io"));
    let flags =
        ["--token-service-account=sei/operator", "--leader-elect=false", "--sidecar-token-file=/token"];
    let output = server.run_operator(&variables, &flags)?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for line in [
        "--sidecar-token-file (OUTRIGGER_SIDECAR_TOKEN_FILE): was removed: set --token-service-account, and --legacy-sidecar-token-file",
        "--proxy-token-audience (OUTRIGGER_PROXY_TOKEN_AUDIENCE): was removed: remove it",
    ] {
        assert_eq!(stderr.matches(line).count(), 1, "{line}: {stderr}");
    }
    server.assert_unused();
    Ok(())
}

/// The operator could watch nodes, and reach none of them.
pub async fn missing_permission_for_tokens_stops_startup(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let account = format!("{}/seid-node", fixture.ns);
    let operator = fixture.start_operator_with(|program| program.flag("token-service-account", &account))?;
    let (code, log) = operator.wait_exit().await?;
    assert_eq!(code, Some(1), "{log}");
    let line = format!(
        "outrigger: the operator is not permitted to request tokens of ServiceAccount {account} (403): apply"
    );
    assert_eq!(log.lines().filter(|logged| logged.starts_with(&line)).count(), 1, "{log}");
    Ok(())
}

pub async fn invalid_settings_are_reported_before_any_request(cx: Context) -> TestResult {
    let server = UnusedServer::start(&cx)?;
    let mut variables = PLATFORM.to_vec();
    variables.push(("SEI_RESOURCE_CPU_DEFAULT", "plenty"));
    variables.push(("SEI_STORAGE_SIZE_ARCHIVE", "40Gigs"));
    let output = server.run_operator(&variables, &["--max-concurrent-reconciles=none"])?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for name in ["SEI_RESOURCE_CPU_DEFAULT", "SEI_STORAGE_SIZE_ARCHIVE", "--max-concurrent-reconciles"] {
        assert_eq!(stderr.matches(name).count(), 1, "{name}: {stderr}");
    }
    assert!(!stderr.contains("SEI_SNAPSHOT_BUCKET"), "a valid setting is reported: {stderr}");
    server.assert_unused();
    Ok(())
}
