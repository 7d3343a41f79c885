//! Prometheus alerts on the aggregator's metrics. `deploy/kms/alerts.yaml` and `docs/reference/kms-alerts.md` are generated from them;
//! each alert has a runbook in `docs/runbooks`.

use serde_json::{Value, json};

/// A Prometheus alert.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// Alert name; also the name of its runbook.
    pub name: &'static str,
    /// PromQL expression.
    pub expr: &'static str,
    /// How long the expression must hold before the alert fires.
    pub for_: &'static str,
    /// Value of the `severity` label.
    pub severity: &'static str,
    /// Value of the `summary` annotation.
    pub summary: &'static str,
}

/// All alerts.
pub const ALL: &[Alert] = &[
    Alert {
        name: "OutriggerKMSReportsNearlyFull",
        expr: "outrigger_kms_reports >= 0.75 * outrigger_kms_reports_limit",
        for_: "10m",
        severity: "warning",
        summary: "{{ $labels.target }} {{ $labels.name }} holds {{ $value }} KMS health reports, at least 75% of its limit",
    },
    Alert {
        name: "OutriggerKMSReportsFull",
        expr: "outrigger_kms_reports >= outrigger_kms_reports_limit",
        for_: "1m",
        severity: "critical",
        summary: "{{ $labels.target }} {{ $labels.name }} is full: KMS health reports of new nodes or keys are rejected",
    },
];

/// Renders the alerts as a PrometheusRule.
#[must_use]
pub fn prometheus_rule() -> Value {
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
    fn generated_alerts_match_code() -> testbed::Result<()> {
        testbed::harness::generated::check_yaml("deploy/kms/alerts.yaml", &[prometheus_rule()])?;
        let mut page = String::from(
            "# KMS aggregator alerts\n\nGenerated from the code; do not edit. `deploy/kms/alerts.yaml` installs them as a PrometheusRule.\n\n\
             | alert | expression | for | severity |\n|---|---|---|---|\n",
        );
        for Alert { name, expr, for_, severity, .. } in ALL {
            let _ = writeln!(page, "| [`{name}`](../runbooks/{name}.md) | `{expr}` | {for_} | {severity} |");
        }
        testbed::harness::generated::check("docs/reference/kms-alerts.md", &page)
    }

    #[test]
    fn every_alert_uses_known_metrics_and_has_a_runbook() {
        for Alert { name, expr, .. } in ALL {
            let tokens = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let mut metrics = tokens.filter(|token| token.starts_with("outrigger_")).peekable();
            assert!(metrics.peek().is_some(), "{expr}");
            for used in metrics {
                assert!(METRICS.iter().any(|metric| metric.name == used), "{name}: no metric {used}");
            }
            let file = format!("{}/../../docs/runbooks/{name}.md", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(text.starts_with(&format!("# {name}\n")), "{file} does not start with `# {name}`");
        }
    }
}
