//! Metrics, probes and the admin server of a running process.

use runtime::metrics::catalog::ALL;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, LONG_LEASE, Process, SOON, request};

pub async fn admin_server_exposes_probes_metrics_and_state(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let process = Process::start(&cx, plane.admin(), &fixture.namespace, "admin-test", LONG_LEASE)?;
    process.wait_leading().await?;
    fixture.set("a", 1).await?;
    fixture.wait_reconciled("a", 1, SOON).await?;
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(process.request("GET", path, "").await?, (200, "ok\n".to_owned()), "{path}");
    }
    wait::until("metrics of an idle controller", SOON, || async {
        let text =
            process.request("GET", "/metrics", "").await.map_err(|error| Error::Other(error.to_string()))?.1;
        for sample in [
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
            if !text.contains(sample) {
                return Err(Error::Other(format!("{sample} is missing in\n{text}")));
            }
        }
        Ok(())
    })
    .await?;

    // An alert on a documented metric that is never set could not fire.
    let text = process.request("GET", "/metrics", "").await?.1;
    let absent = ALL.iter().map(|metric| metric.name).filter(|name| !text.contains(&format!("\n{name}")));
    let set_only_on_failures = [
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "outrigger_watch_restarts_total",
    ];
    assert_eq!(absent.collect::<Vec<_>>(), set_only_on_failures);

    let state = process.state().await?;
    assert_eq!(state["leading"], true, "{state}");
    assert!(state["progress"]["watch toys"]["failure"].is_null(), "{state}");

    assert_eq!(process.request_admin("GET", "/log-level", "").await?, (200, "info\n".to_owned()));
    assert_eq!(process.request_admin("PUT", "/log-level", "info,runtime=debug").await?.0, 200);
    assert_eq!(process.request_admin("GET", "/log-level", "").await?.1, "runtime=debug,info\n");
    let (code, error) = process.request_admin("PUT", "/log-level", "loud=very").await?;
    assert_eq!(code, 400);
    assert!(error.contains("use one like info"), "{error}");
    assert_eq!(process.request("GET", "/nowhere", "").await?.0, 404);
    Ok(())
}

/// Anyone in the cluster can connect to the port of metrics and probes.
pub async fn admin_server_is_reachable_on_loopback_only(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let process = Process::start(&cx, plane.admin(), &fixture.namespace, "loopback-test", LONG_LEASE)?;
    process.wait_ready().await?;
    let host = plane.site().addresses().host();
    assert!(!host.is_loopback());
    for path in ["/livez", "/healthz", "/readyz", "/metrics"] {
        assert_eq!(request((host, process.metrics_port), "GET", path, "").await?.0, 200, "{path}");
        assert_eq!(process.request_admin("GET", path, "").await?.0, 404, "{path}");
    }
    for (method, path) in [("GET", "/debug/state.json"), ("GET", "/log-level"), ("PUT", "/log-level")] {
        let (code, _) = request((host, process.metrics_port), method, path, "trace").await?;
        assert_eq!(code, 404, "{method} {path}");
        let refused = request((host, process.admin_port), method, path, "trace").await;
        let kind = refused.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::ConnectionRefused), "{method} {path}");
        assert_eq!(process.request_admin(method, path, "info").await?.0, 200, "{method} {path}");
    }
    Ok(())
}
