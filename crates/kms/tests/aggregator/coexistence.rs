//! T-G18: the upstream controllers beside the aggregator, as their writes were recorded.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, Form, INTERVAL, KUBE, failing, healthy};

const DEGRADED: &str = "KMSPluginsDegraded";

/// Age at which the recorded controller removes a report. Upstream it is ten minutes, longer than four intervals.
const TTL: Duration = Duration::from_secs(6 * INTERVAL.as_secs());

/// The upstream health controller: removes old reports by its wall clock with a read and an update of the status, and applies its two
/// conditions. It does not look at the health of plugins.
struct UpstreamController(JoinHandle<()>);

impl UpstreamController {
    fn start(client: &Client) -> Self {
        let client = client.clone();
        Self(tokio::spawn(async move {
            let mut syncs = tokio::time::interval(INTERVAL);
            loop {
                syncs.tick().await;
                // A conflict is followed by the next sync.
                let _ = sync(&client).await;
            }
        }))
    }
}

impl Drop for UpstreamController {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn sync(client: &Client) -> Result<(), Error> {
    let api = KUBE.api(client);
    let mut object = api.get("cluster").await?;
    let oldest = Timestamp::now() - SignedDuration::try_from(TTL).unwrap_or_default();
    let holder = &mut object.data["status"]["encryptionStatus"];
    let all = holder["healthReports"].as_array().cloned().unwrap_or_default();
    let is_recent = |one: &&Value| {
        let checked = one["lastCheckedTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        checked.is_some_and(|checked| checked > oldest)
    };
    let recent: Vec<Value> = all.iter().filter(is_recent).cloned().collect();
    if recent.len() < all.len() {
        if recent.is_empty() {
            object.data["status"]["encryptionStatus"] = Value::Null;
        } else {
            holder["healthReports"] = recent.into();
        }
        api.replace_status("cluster", &PostParams::default(), &object).await?;
    }
    let condition = |name: &str| json!({ "type": name, "status": "False", "reason": "AsExpected", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let body = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeAPIServer", "metadata": { "name": "cluster" },
        "status": { "conditions": [condition("KmsHealthReportsDegraded"), condition("KmsHealthReportsProgressing")] },
    });
    let params = PatchParams::apply("openshift-kube-apiserver-KmsHealth").force();
    api.patch_status("cluster", &params, &Patch::Apply(&body)).await?;
    Ok(())
}

/// The pruner removes the report of a reporter that stopped. The rollup does not take it for a node that has not reported yet.
pub async fn pruned_entry_stays_unknown(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_pods(&[("a", &[1]), ("b", &[1])]).await?;
    let nodes = [("a", vec![healthy("1")]), ("b", vec![failing("1")])];
    let reporters = fixture.reporters(KUBE, "cluster", Form::Typed, &nodes);
    let aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "PluginError").await?;
    let _upstream = UpstreamController::start(&fixture.client);
    reporters.set("b", &[]);
    fixture.until(KUBE, "cluster", DEGRADED, "ReporterStale").await?;
    fixture.until_reports(KUBE, "cluster", &["a/1"]).await?;
    let stays_unknown = || {
        wait::throughout("ReporterStale", INTERVAL * 8, || async {
            let condition =
                fixture.condition(KUBE, "cluster", DEGRADED).await.map_err(|error| error.to_string())?;
            if condition.1 == "ReporterStale" { Ok(()) } else { Err(format!("{condition:?}")) }
        })
    };
    stays_unknown().await?;
    drop(aggregator);
    let _restarted = fixture.aggregator("kubeapiserver")?;
    stays_unknown().await?;
    reporters.set("b", &[healthy("1")]);
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    Ok(())
}

/// The pruner removes the reports of a node with a slow clock again and again, and upstream's conditions are written all the time.
pub async fn recorded_upstream_writes_do_not_trigger_ours(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_pods(&[("a", &[1]), ("slow", &[1])]).await?;
    let slow = vec![crate::fixture::Report { clock_skew: -3600, ..healthy("1") }];
    let nodes = [("a", vec![healthy("1")]), ("slow", slow)];
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "NotYetObserved").await?;
    let _reporters = fixture.reporters(KUBE, "cluster", Form::Typed, &nodes);
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    let _upstream = UpstreamController::start(&fixture.client);
    fixture.assert_no_writes_for(INTERVAL * 8).await?;
    let object = KUBE.api(&fixture.client).get("cluster").await?;
    let managers = object.metadata.managed_fields.unwrap_or_default();
    let owner = |condition: &str| -> Vec<String> {
        let key = format!("k:{{\"type\":\"{condition}\"}}");
        let owns = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
            entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| !fields.0["f:status"]["f:conditions"][&key].is_null())
        };
        managers.iter().filter(owns).filter_map(|entry| entry.manager.clone()).collect()
    };
    assert_eq!(owner("KMSPluginsDegraded"), ["outrigger-kms-aggregator"]);
    assert_eq!(owner("KmsHealthReportsDegraded"), ["openshift-kube-apiserver-KmsHealth"]);
    Ok(())
}
