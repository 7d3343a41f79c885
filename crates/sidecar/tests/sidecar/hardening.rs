//! Protection of the process against others of the same user.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar, TIMEOUT, free_port};

/// The user and group of the containers of a node pod.
const USER: &str = "65532";

/// A process of the same user, as seid is, cannot read the environment and the memory of the sidecar.
pub async fn process_is_unreadable_for_the_same_user(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let (home, port) = (fixture.site.dir().join("own-home"), free_port());
    std::fs::create_dir(&home)?;
    std::os::unix::fs::chown(&home, USER.parse().ok(), USER.parse().ok())?;
    for dir in fixture.site.dir().ancestors() {
        let mode = std::fs::metadata(dir)?.permissions().mode();
        assert!(mode & 0o001 != 0, "{} cannot be entered by other users", dir.display());
    }
    let as_user = ["--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--"];
    let binary = testbed::harness::binaries::path("outrigger")?;
    let bucket = format!("file://{}", fixture.objects.display());
    let process = Program::new("own-user", "/usr/bin/setpriv")
        .args(as_user)
        .arg(binary)
        .args(["sidecar", "--chain-id=test-1", "--genesis-region=r", "--snapshot-region=r"])
        .flag("home", &home)
        .flag("port", port.to_string())
        .flag("genesis-bucket", &bucket)
        .flag("snapshot-bucket", &bucket)
        .env("AWS_SECRET_ACCESS_KEY", "hunter2")
        .start(&fixture.site)?;
    let sidecar = Sidecar::attach(process, port, &fixture.site);
    wait::until("the sidecar to serve", TIMEOUT, || async {
        sidecar.process.check_alive()?;
        sidecar.get("/v0/livez").await.map(drop)
    })
    .await?;
    let read = |pid: u32, file: &str| {
        Command::new("/usr/bin/setpriv").args(as_user).args(["cat", &format!("/proc/{pid}/{file}")]).output()
    };
    let pid = sidecar.process.pid()?;
    for file in ["environ", "mem", "maps"] {
        let output = read(pid, file)?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            error.contains("Permission denied") && output.stdout.is_empty(),
            "{file} is readable: {output:?}"
        );
    }
    // The same user reads a process that does not protect itself.
    let other = Program::new("unprotected", "/usr/bin/setpriv")
        .args(as_user)
        .args(["sleep", "60"])
        .env("SECRET", "hunter3")
        .start(&fixture.site)?;
    wait::until("the environment of the other process", TIMEOUT, || async {
        let pid = other.pid().map_err(|error| error.to_string())?;
        let output = read(pid, "environ").map_err(|error| error.to_string())?;
        match String::from_utf8_lossy(&output.stdout).contains("hunter3") {
            true => Ok(()),
            false => Err(format!("{output:?}")),
        }
    })
    .await?;
    Ok(())
}
