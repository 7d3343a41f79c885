//! One leader among several controllers.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::ground::{Ground, SOON};

pub async fn one_that_is_killed_is_followed_by_the_other(cx: Context) -> TestResult {
    let ground = Ground::new(&cx, "KubeAPIServer").await?;
    let start = |name: &'static str| {
        let user = ground.plane.user(name, Some("system:masters"))?;
        ground.controller_as(name, &user, |program: Program| {
            program
                .flag("resync", "1h")
                .flag("leader-elect-lease-duration", "6s")
                .flag("leader-elect-renew-deadline", "4s")
                .flag("leader-elect-retry-period", "500ms")
        })
    };
    let leases: Api<Lease> = Api::namespaced(ground.client.clone(), ground.operand);
    let leads = |name: &'static str| {
        let leases = leases.clone();
        wait::until(format!("{name} to lead"), SOON, move || {
            let leases = leases.clone();
            async move {
                let lease = leases.get("outrigger-kms-preflight").await.map_err(|error| error.to_string())?;
                let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                if holder.starts_with(&format!("{name}_")) { Ok(()) } else { Err(holder) }
            }
        })
    };
    let writes = |name: &'static str| {
        let audit = ground.plane.audit();
        audit.requests(move |one| one.user == name && one.is_write() && one.resource != "leases")
    };
    let first = start("first")?;
    leads("first").await?;
    let _second = start("second")?;
    // The other one has looked, and waits.
    ground
        .plane
        .audit()
        .wait_for(2, SOON, |one| one.user == "second" && one.verb == "get" && one.resource == "leases")
        .await?;
    ground.ask().await?;
    let pod = ground.pod(None).await?;
    assert!(!writes("first")?.is_empty());
    assert_eq!(writes("second")?, [], "it does not lead");
    first.kill()?;
    leads("second").await?;
    ground.retry("now").await?;
    ground.becomes(serde_json::json!({ "phase": "Failed" })).await?;
    ground.pod(Some(&pod)).await?;
    assert!(!writes("second")?.is_empty());
    Ok(())
}
