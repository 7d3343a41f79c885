//! A definition that is older than the operator keeps it from starting.

use std::process::Command;
use std::time::Duration;

use testbed::harness::binaries;
use testbed::{Context, ControlPlane, TestResult};

/// Something for every setting that must be given.
fn platform() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = api::names::env::operator::ALL.iter().map(|(_, name)| *name);
    all.filter(|name| name.starts_with("SEI_") && !name.contains("GATEWAY")).map(|name| (name, "1"))
}

/// What the operator says when it is started on a control plane, and its exit code.
fn start(plane: &ControlPlane, cx: &Context) -> testbed::Result<(Option<i32>, String)> {
    let user = plane.user("operator", Some("system:masters"))?;
    std::fs::create_dir_all(cx.logs()).expect("a folder for logs can be made");
    let output = Command::new(binaries::path("outrigger")?)
        .arg("operator")
        .arg(format!("--kubeconfig={}", user.write_kubeconfig(cx.logs())?.display()))
        .args(["--pod-namespace=default", "--leader-elect=false", "--sidecar-token-file=/dev/null"])
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .env_clear()
        .envs(platform())
        .output()
        .expect("the operator starts");
    Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

pub async fn without_our_kinds_or_with_older_ones_it_says_so_and_ends(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).start().await?;
    let (code, said) = start(&plane, &cx)?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("serves no SeiNode: outrigger crds | kubectl apply"), "{said}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/sei.io_seinodes.yaml");
    let text = std::fs::read_to_string(folder).expect("the definition is there");
    let older = cx.logs().join("older.yaml");
    std::fs::write(&older, text.replace("startedFrom:", "begunFrom:")).expect("it can be written");
    let applied = plane.kubectl()?.args(["apply", "--server-side", "-f"]).arg(&older).output();
    let applied = applied.expect("kubectl starts");
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let seen =
        testbed::harness::wait::until("the definition to be served", Duration::from_secs(60), || async {
            let (code, said) = start(&plane, &cx).map_err(|error| error.to_string())?;
            if said.contains("serves no SeiNode") { Err(said) } else { Ok((code, said)) }
        });
    let (code, said) = seen.await?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("lacks status.startedFrom"), "{said}");
    Ok(())
}
