//! The valid and invalid manifests in `cases/`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use testbed::{Context, TestResult};

use crate::plane::{call, collection, merge, with_crds};

const FILES: [(&str, &str); 3] = [
    ("nodes.yaml", include_str!("cases/nodes.yaml")),
    ("fleets.yaml", include_str!("cases/fleets.yaml")),
    ("kms.yaml", include_str!("cases/kms.yaml")),
];

/// Fewer cases mean that the table was not read.
const MIN_CASES: usize = 80;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    bases: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

/// A manifest, and the expected error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    base: String,
    #[serde(default)]
    change: Value,
    rejected: Option<String>,
}

pub async fn manifests_are_accepted_or_rejected_with_expected_message(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let (mut valid, mut invalid, mut wrong) = (0, 0, Vec::new());
    for (file, text) in FILES {
        let table: Table = serde_saphyr::from_str(text)?;
        for case in table.cases {
            let mut manifest =
                table.bases.get(&case.base).ok_or_else(|| format!("{file}: no base {}", case.base))?.clone();
            if !case.change.is_null() {
                merge(&mut manifest, &case.change);
            }
            let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&manifest, &ns));
            let rejected =
                call(&client, "POST", &path, &manifest).await.err().map(|error| strip_context(&error));
            if case.rejected.is_some() {
                invalid += 1
            } else {
                valid += 1
            }
            if rejected != case.rejected {
                wrong.push(format!(
                    "{file}: {}\n  expected: {}\n  the API server: {}",
                    case.name,
                    case.rejected.as_deref().unwrap_or("accepted"),
                    rejected.as_deref().unwrap_or("accepted")
                ));
            }
        }
    }
    println!("manifests: {valid} valid, {invalid} invalid");
    assert!(wrong.is_empty(), "{} of {} manifests:\n{}", wrong.len(), valid + invalid, wrong.join("\n"));
    assert!(valid + invalid >= MIN_CASES, "only {} manifests", valid + invalid);
    Ok(())
}

/// Strips the kind and name of the object, and the remark that the API server adds if schema errors kept it from evaluating rules.
fn strip_context(error: &str) -> String {
    const REMARK: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was \
                          invalid; correct the existing errors to complete validation]";
    let message = error.split_once("\" is invalid: ").map_or(error, |(_, message)| message);
    message.strip_suffix(REMARK).and_then(|list| list.strip_prefix('[')).unwrap_or(message).to_owned()
}
