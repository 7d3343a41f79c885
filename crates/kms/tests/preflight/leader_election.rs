//! Leader election among controllers.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT};

pub async fn standby_takes_over_from_killed_leader(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    let start = |name: &'static str| {
        let user = fixture.plane.user(name, Some("system:masters"))?;
        fixture.controller_as(name, &user, |program: Program| {
            program
                .flag("resync", "1h")
                .flag("leader-elect-lease-duration", "6s")
                .flag("leader-elect-renew-deadline", "4s")
                .flag("leader-elect-retry-period", "500ms")
        })
    };
    let leases: Api<Lease> = Api::namespaced(fixture.client.clone(), fixture.operand);
    let until_leader = |name: &'static str| {
        let leases = leases.clone();
        wait::until(format!("{name} to lead"), TIMEOUT, move || {
            let leases = leases.clone();
            async move {
                let lease = leases.get("outrigger-kms-preflight").await.map_err(|error| error.to_string())?;
                let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                if holder.starts_with(&format!("{name}_")) { Ok(()) } else { Err(holder) }
            }
        })
    };
    let writes = |name: &'static str| {
        let audit = fixture.plane.audit();
        audit.requests(move |one| one.user == name && one.is_write() && one.resource != "leases")
    };
    let first = start("first")?;
    until_leader("first").await?;
    let _second = start("second")?;
    // The standby has read the Lease.
    fixture
        .plane
        .audit()
        .wait_for(2, TIMEOUT, |one| one.user == "second" && one.verb == "get" && one.resource == "leases")
        .await?;
    fixture.request_check().await?;
    let pod = fixture.wait_for_pod(None).await?;
    assert!(!writes("first")?.is_empty());
    assert_eq!(writes("second")?, [], "the standby wrote");
    first.kill()?;
    until_leader("second").await?;
    fixture.retry("now").await?;
    fixture.set_pod_status(serde_json::json!({ "phase": "Failed" })).await?;
    fixture.wait_for_pod(Some(&pod)).await?;
    assert!(!writes("second")?.is_empty());
    Ok(())
}
