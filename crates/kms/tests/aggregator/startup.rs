//! What is wrong with settings is told before anything is done.

use std::process::Command;

use testbed::harness::binaries;
use testbed::{Context, TestResult};

pub async fn wrong_settings_are_told_at_once_with_code_two(_cx: Context) -> TestResult {
    let output = Command::new(binaries::path("outrigger")?)
        .args(["kms-aggregator", "--targets=etcd", "--interval=soon", "--cluster-operator=X"])
        .args(["--pod-namespace=a", "--kubeconfig=/nowhere"])
        .env_clear()
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in
        ["--targets (OUTRIGGER_KMS_TARGETS)", "--interval (OUTRIGGER_KMS_INTERVAL)", "--cluster-operator ("]
    {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert_eq!(said.lines().count(), 4, "{said}");
    Ok(())
}
