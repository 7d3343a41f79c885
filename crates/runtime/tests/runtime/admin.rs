//! The admin server of a living process.

use runtime::metrics::catalogue::ALL;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::process::{Ground, LONG_LEASE, Process, SOON};

pub async fn it_tells_whether_it_lives_what_it_does_and_what_it_costs(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let process = Process::start(&cx, plane.admin(), &ground.namespace, "admin-test", LONG_LEASE)?;
    process.leads().await?;
    ground.set("a", 1).await?;
    ground.settled("a", 1, SOON).await?;
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(process.ask("GET", path, "").await?, (200, "ok\n".to_owned()), "{path}");
    }
    wait::until("the metrics of a settled controller", SOON, || async {
        let text =
            process.ask("GET", "/metrics", "").await.map_err(|error| Error::Refused(error.to_string()))?.1;
        for wanted in [
            "controller_runtime_reconcile_total{controller=\"toy\",result=\"success\"}",
            "controller_runtime_reconcile_time_seconds_count{controller=\"toy\"}",
            "workqueue_adds_total{name=\"toy\",controller=\"toy\"}",
            "workqueue_depth{name=\"toy\",controller=\"toy\"} 0",
            "rest_client_requests_total{code=\"200\",method=\"PATCH\"",
            "leader_election_master_status{name=\"toys\"} 1",
            "outrigger_watch_objects{kind=\"toys\"}",
            "outrigger_writes_total{kind=\"ConfigMap\",outcome=\"applied\"}",
            "process_resident_memory_bytes",
        ] {
            if !text.contains(wanted) {
                return Err(Error::Refused(format!("{wanted} is not in\n{text}")));
            }
        }
        Ok(())
    })
    .await?;

    // A metric that is described and never counted would keep an alert from ever firing.
    let text = process.ask("GET", "/metrics", "").await?.1;
    let absent = ALL.iter().map(|metric| metric.name).filter(|name| !text.contains(&format!("\n{name}")));
    let only_in_trouble = [
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "outrigger_watch_restarts_total",
    ];
    assert_eq!(absent.collect::<Vec<_>>(), only_in_trouble);

    let state = process.state().await?;
    assert_eq!(state["leading"], true, "{state}");
    assert!(state["progress"]["watch toys"]["trouble"].is_null(), "{state}");

    assert_eq!(process.ask("GET", "/log-level", "").await?, (200, "info\n".to_owned()));
    assert_eq!(process.ask("PUT", "/log-level", "info,runtime=debug").await?.0, 200);
    assert_eq!(process.ask("GET", "/log-level", "").await?.1, "runtime=debug,info\n");
    let (code, why) = process.ask("PUT", "/log-level", "loud=very").await?;
    assert_eq!(code, 400);
    assert!(why.contains("use one like info"), "{why}");
    assert_eq!(process.ask("GET", "/nowhere", "").await?.0, 404);
    Ok(())
}
