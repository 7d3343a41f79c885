//! Alerts on the aggregator's metrics: generated into `deploy/kms/alerts.yaml`, a table in the documentation, and a runbook for each.

use serde_json::{Value, json};

/// An alert.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// Its name, which is also that of its runbook.
    pub name: &'static str,
    /// When it fires.
    pub expr: &'static str,
    /// For how long that must hold.
    pub for_: &'static str,
    /// How urgent it is.
    pub severity: &'static str,
    /// What it tells.
    pub summary: &'static str,
}

/// Every alert.
pub const ALL: &[Alert] = &[
    Alert {
        name: "OutriggerKMSReportsNearlyFull",
        expr: "outrigger_kms_reports >= 0.75 * outrigger_kms_reports_limit",
        for_: "10m",
        severity: "warning",
        summary: "{{ $labels.target }} {{ $labels.name }} has {{ $value }} KMS reports, three quarters of what it takes or more",
    },
    Alert {
        name: "OutriggerKMSReportsFull",
        expr: "outrigger_kms_reports >= outrigger_kms_reports_limit",
        for_: "1m",
        severity: "critical",
        summary: "{{ $labels.target }} {{ $labels.name }} takes no more KMS reports: a new node or key cannot be reported",
    },
];

/// The alerts as a PrometheusRule.
#[must_use]
pub fn rule() -> Value {
    let alert = |alert: &Alert| {
        let runbook = format!("docs/runbooks/{}.md", alert.name);
        json!({
            "alert": alert.name, "expr": alert.expr, "for": alert.for_,
            "labels": { "severity": alert.severity },
            "annotations": { "summary": alert.summary, "runbook": runbook },
        })
    };
    let rules: Vec<Value> = ALL.iter().map(alert).collect();
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": { "name": "outrigger-kms" },
        "spec": { "groups": [{ "name": "outrigger-kms", "rules": rules }] },
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::aggregator::METRICS;

    #[test]
    fn the_files_are_what_the_code_says() -> testbed::Result<()> {
        testbed::harness::generated::check_documents("deploy/kms/alerts.yaml", &[rule()])?;
        let mut page = String::from(
            "# Alerts of the KMS aggregator\n\nGenerated from the code; a test compares. They are in `deploy/kms/alerts.yaml`.\n\n\
             | alert | fires when | for | severity |\n|---|---|---|---|\n",
        );
        for Alert { name, expr, for_, severity, .. } in ALL {
            let _ = writeln!(page, "| [`{name}`](../runbooks/{name}.md) | `{expr}` | {for_} | {severity} |");
        }
        testbed::harness::generated::check("docs/reference/kms-alerts.md", &page)
    }

    #[test]
    fn every_alert_is_about_metrics_that_there_are_and_has_a_runbook() {
        for Alert { name, expr, .. } in ALL {
            let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let mut metrics = words.filter(|word| word.starts_with("outrigger_")).peekable();
            assert!(metrics.peek().is_some(), "{expr}");
            for word in metrics {
                assert!(METRICS.iter().any(|metric| metric.name == word), "{name}: no metric {word}");
            }
            let file = format!("{}/../../docs/runbooks/{name}.md", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(text.starts_with(&format!("# {name}\n")), "{file} does not begin with its name");
        }
    }
}
