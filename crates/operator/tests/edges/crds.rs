//! The CRD check at startup.

use std::process::Command;
use std::time::Duration;

use testbed::harness::binaries;
use testbed::{Context, ControlPlane, TestResult};

/// Returns a value for every required setting.
fn platform() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = api::names::env::operator::ALL.iter().map(|(_, name)| *name);
    all.filter(|name| name.starts_with("SEI_") && !name.contains("GATEWAY")).map(|name| (name, "1"))
}

/// Runs the operator against a control plane until it exits. Returns its exit code and stderr.
fn run_operator(plane: &ControlPlane, cx: &Context) -> testbed::Result<(Option<i32>, String)> {
    let user = plane.user("operator", Some("system:masters"))?;
    std::fs::create_dir_all(cx.logs()).expect("the log directory can be created");
    let output = Command::new(binaries::path("outrigger")?)
        .arg("operator")
        .arg(format!("--kubeconfig={}", user.write_kubeconfig(cx.logs())?.display()))
        .args(["--pod-namespace=default", "--leader-elect=false", "--token-service-account=default/operator"])
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0", "--admin-bind-address=0"])
        .env_clear()
        .envs(platform())
        .output()
        .expect("the operator can be started");
    Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

pub async fn missing_or_outdated_crd_stops_startup(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    let (code, stderr) = run_operator(&plane, &cx)?;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("the SeiNode CRD is not installed: run outrigger crds | kubectl apply"),
        "{stderr}"
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/sei.io_seinodes.yaml");
    let text = std::fs::read_to_string(path).expect("the CRD is readable");
    let outdated = cx.logs().join("outdated.yaml");
    std::fs::write(&outdated, text.replace("startedFrom:", "otherName:")).expect("the file is writable");
    let applied = plane.kubectl()?.args(["apply", "--server-side", "-f"]).arg(&outdated).output();
    let applied = applied.expect("kubectl can be started");
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let served = testbed::harness::wait::until("the CRD is served", Duration::from_secs(60), || async {
        let (code, stderr) = run_operator(&plane, &cx).map_err(|error| error.to_string())?;
        if stderr.contains("is not installed") { Err(stderr) } else { Ok((code, stderr)) }
    });
    let (code, stderr) = served.await?;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("lacks status.startedFrom"), "{stderr}");
    Ok(())
}
