//! Quantities on a real API server: the form in which it stores them.

use plan::quantity::{Quantity, canonical};
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::succeed;

/// A quantity, and its stored or canonical form.
type Row = (&'static str, &'static str);

/// Quantities, and the form in which the API server stores them.
const NORMALIZED: &[Row] = &[
    ("0", "0"),
    ("0m", "0"),
    ("0Ki", "0"),
    ("0e5", "0"),
    ("0.0", "0"),
    ("-0", "0"),
    ("1", "1"),
    ("12", "12"),
    ("999", "999"),
    ("1000", "1k"),
    ("1024", "1024"),
    ("100000", "100k"),
    ("1000000", "1M"),
    ("1001", "1001"),
    ("123456789", "123456789"),
    ("0.5", "500m"),
    (".5", "500m"),
    ("0.1", "100m"),
    ("0.05", "50m"),
    ("1.5", "1500m"),
    ("2.50", "2500m"),
    ("0.001", "1m"),
    ("0.0001", "1m"),
    ("0.0011", "2m"),
    ("1m", "1m"),
    ("100m", "100m"),
    ("1000m", "1"),
    ("1500m", "1500m"),
    ("2000m", "2"),
    ("1u", "1m"),
    ("999u", "1m"),
    ("1001u", "2m"),
    ("2000u", "2m"),
    ("1n", "1m"),
    ("0.1n", "1m"),
    ("1000000n", "1m"),
    ("1k", "1k"),
    ("1.5k", "1500"),
    ("1000k", "1M"),
    ("1M", "1M"),
    ("5M", "5M"),
    ("1.5G", "1500M"),
    ("1G", "1G"),
    ("1T", "1T"),
    ("1P", "1P"),
    ("1E", "1E"),
    ("9E", "9E"),
    ("1Ki", "1Ki"),
    ("0.5Ki", "512"),
    ("1.5Ki", "1536"),
    ("1.1Ki", "1126400m"),
    ("0.1Ki", "102400m"),
    ("100Ki", "100Ki"),
    ("1024Ki", "1Mi"),
    ("1536Ki", "1536Ki"),
    ("64Mi", "64Mi"),
    ("384Mi", "384Mi"),
    ("1024Mi", "1Gi"),
    ("1000Mi", "1000Mi"),
    ("1Gi", "1Gi"),
    ("1.5Gi", "1536Mi"),
    ("0.25Gi", "256Mi"),
    ("32Gi", "32Gi"),
    ("448Gi", "448Gi"),
    ("2000Gi", "2000Gi"),
    ("2048Gi", "2Ti"),
    ("40Ti", "40Ti"),
    ("1Pi", "1Pi"),
    ("1Ei", "1Ei"),
    ("7Ei", "7Ei"),
    ("8Ei", "9223372036854775807"),
    ("16Ei", "9223372036854775807"),
    ("0.000001Ki", "2m"),
    ("1e3", "1e3"),
    ("1e1", "10"),
    ("12e7", "120e6"),
    ("1e-1", "100e-3"),
    ("5e-3", "5e-3"),
    ("1e-9", "1e-3"),
    ("1.5e3", "1500"),
    ("1000e3", "1e6"),
    ("1e21", "1e21"),
    ("-1", "-1"),
    ("-0.5", "-500m"),
    ("-1u", "-1m"),
    ("-1024Mi", "-1Gi"),
    ("-1.5Ki", "-1536"),
    ("-16Ei", "-9223372036854775807"),
];

/// Quantities that the API server stores as written, and their canonical form, which it stores as written, too.
const STORED_AS_WRITTEN: &[Row] = &[
    ("5.", "5"),
    ("+5", "5"),
    ("1.500", "1500m"),
    ("1.234k", "1234"),
    ("0005Ki", "5Ki"),
    ("+1Gi", "1Gi"),
    ("1E3", "1e3"),
    ("1e+6", "1e6"),
    ("1e0", "1"),
];

/// Quantities that the API server stores as another number. They have no canonical form.
const CORRUPTED: &[Row] = &[("1000E", "1")];

pub async fn quantities_are_stored_in_canonical_form(cx: Context) -> TestResult {
    let (plane, namespace) = (cx.control_plane().await?, cx.namespace().await?);
    let store = |quantities: &[String]| -> Result<Vec<String>, crate::Error> {
        let range = |(index, quantity)| {
            json!({
                "apiVersion": "v1", "kind": "LimitRange",
                "metadata": { "name": format!("range-{index}"), "namespace": namespace },
                "spec": { "limits": [{ "type": "Container", "max": { "cpu": quantity } }] },
            })
        };
        let items: Vec<Value> = quantities.iter().enumerate().map(range).collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
        let args = ["apply", "--server-side", "--dry-run=server", "-o", "json", "-f", "-"];
        let printed = succeed(plane, &args, &list)?;
        let stored: Value = serde_json::from_slice(&printed)?;
        let items = stored["items"].as_array().map_or_else(|| vec![stored.clone()], Clone::clone);
        let cpu = |item: &Value| item["spec"]["limits"][0]["max"]["cpu"].as_str().map(str::to_owned);
        Ok(items.iter().filter_map(cpu).collect())
    };
    for ((written, ours), stored) in NORMALIZED.iter().zip(store(&column(NORMALIZED, |row| row.0))?) {
        assert_eq!(canonical(written).as_deref(), Some(*ours), "{written}");
        assert_eq!(stored, *ours, "{written}");
    }
    for ((written, ours), stored) in
        STORED_AS_WRITTEN.iter().zip(store(&column(STORED_AS_WRITTEN, |row| row.0))?)
    {
        assert_eq!(canonical(written).as_deref(), Some(*ours), "{written}");
        assert_eq!(Quantity::parse(written), Quantity::parse(ours), "{written}");
        assert_eq!(stored, *written);
    }
    for table in [NORMALIZED, STORED_AS_WRITTEN] {
        let ours = column(table, |row| row.1);
        assert_eq!(store(&ours)?, ours, "the canonical form is stored as written");
    }
    for ((written, other), stored) in CORRUPTED.iter().zip(store(&column(CORRUPTED, |row| row.0))?) {
        assert_eq!(canonical(written), None, "{written}");
        assert_eq!(stored, *other, "{written}");
    }
    Ok(())
}

fn column(table: &[Row], of: fn(&Row) -> &'static str) -> Vec<String> {
    table.iter().map(|row| of(row).to_owned()).collect()
}
