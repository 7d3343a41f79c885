//! Validation of settings.

use std::process::Command;

use testbed::harness::binaries;
use testbed::{Context, TestResult};

pub async fn invalid_settings_exit_with_2(_cx: Context) -> TestResult {
    let output = Command::new(binaries::path("outrigger")?)
        .args(["kms-aggregator", "--targets=etcd", "--interval=soon", "--cluster-operator=X"])
        .args(["--pod-namespace=a", "--kubeconfig=/nowhere"])
        .env_clear()
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for part in
        ["--targets (OUTRIGGER_KMS_TARGETS)", "--interval (OUTRIGGER_KMS_INTERVAL)", "--cluster-operator ("]
    {
        assert!(stderr.contains(part), "no {part} in {stderr}");
    }
    assert_eq!(stderr.lines().count(), 4, "{stderr}");
    Ok(())
}
