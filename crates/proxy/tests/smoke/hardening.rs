//! Protection of the process against others of the same user.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use testbed::{Context, TestResult};

use crate::caller::Call;
use crate::fixture::Fixture;
use crate::upstream::Upstream;

/// Runs a command as a user without any rights.
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Opens and reads the first byte of a file as that user.
fn read_as_nobody(path: &str) -> std::io::Result<Output> {
    Command::new(AS_NOBODY[0]).args(&AS_NOBODY[1..]).args(["head", "--bytes=1", path]).output()
}

pub async fn other_process_of_same_user_cannot_read_the_proxy(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))?;
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, fixture.kubeconfig_at(&format!("https://{}", fixture.api_server())))?;
    let proxy = fixture
        .proxy("hardening")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/open")
        .flag("kubeconfig", kubeconfig.display())
        .wrapped_by(&AS_NOBODY)
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    assert_eq!(Call::get("/open").send_to(&address).await?.status, 200);
    let pid = proxy.process.pid()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    assert!(uid.split_whitespace().all(|uid| uid == "65534"), "{status}");
    // What any other program of that user shows, so that the refusals below mean something.
    let mut other = Command::new(AS_NOBODY[0]).args(&AS_NOBODY[1..]).args(["sleep", "60"]).spawn()?;
    let readable = format!("/proc/{}/environ", other.id());
    let shown = testbed::harness::wait::until("a readable environment", crate::fixture::SOON, || async {
        let output = read_as_nobody(&readable).map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
    })
    .await;
    other.kill()?;
    other.wait()?;
    shown?;
    for file in ["environ", "mem", "maps", "fd/0", "root/etc/hostname"] {
        let output = read_as_nobody(&format!("/proc/{pid}/{file}"))?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("Permission denied"), "{file}: {output:?}");
    }
    Ok(())
}
