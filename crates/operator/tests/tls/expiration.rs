//! The expiry of the certificate in use is a metric of the running operator.

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use testbed::Error;
use testbed::harness::wait;

use crate::fixture::{Fixture, Operator, TIMEOUT};

const METRIC: &str = "outrigger_certificate_expiration_timestamp_seconds";

/// Returns when the certificate of a Certificate expires, as cert-manager reports it.
async fn not_after(fixture: &Fixture<'_>, certificate: &str) -> Result<f64, Error> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate"));
    let api: Api<DynamicObject> = Api::namespaced_with(fixture.client.clone(), &fixture.ns, &kind);
    let live = api.get(certificate).await?;
    let not_after = live.data["status"]["notAfter"].as_str().unwrap_or_default().to_owned();
    let parsed = not_after.parse::<Timestamp>();
    let time = parsed.map_err(|error| Error::Other(format!("notAfter {not_after:?}: {error}")))?;
    Ok(time.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
}

async fn scrape(fixture: &Fixture<'_>, operator: &Operator, node: &str) -> Result<Option<f64>, Error> {
    operator.metric(METRIC, &[("namespace", &fixture.ns), ("name", node)]).await
}

/// Waits until the metric of a node is the expiry of its certificate. Returns the value.
pub async fn wait_exported(fixture: &Fixture<'_>, operator: &Operator, node: &str) -> Result<f64, Error> {
    wait::until(format!("{METRIC} of {node}"), TIMEOUT, || async {
        let expected = not_after(fixture, &format!("{node}-sidecar-tls")).await?;
        let value = scrape(fixture, operator, node).await?;
        if value == Some(expected) {
            Ok(expected)
        } else {
            Err(Error::Other(format!("{value:?}, not {expected}")))
        }
    })
    .await
}

/// Waits until the metric of a node has this value, or no series.
pub async fn wait_value(
    fixture: &Fixture<'_>,
    operator: &Operator,
    node: &str,
    expected: Option<f64>,
) -> Result<(), Error> {
    wait::until(format!("{METRIC} of {node} is {expected:?}"), TIMEOUT, || async {
        let value = scrape(fixture, operator, node).await?;
        if value == expected { Ok(()) } else { Err(Error::Other(format!("{value:?}"))) }
    })
    .await
}
