//! The table of good and bad manifests in `cases/`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use testbed::{Context, TestResult};

use crate::plane::{call, collection, merge, with_our_kinds};

const FILES: [(&str, &str); 3] = [
    ("nodes.yaml", include_str!("cases/nodes.yaml")),
    ("fleets.yaml", include_str!("cases/fleets.yaml")),
    ("kms.yaml", include_str!("cases/kms.yaml")),
];

/// Fewer than these would mean that the table was lost, not that it became smaller.
const AT_LEAST: usize = 80;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    bases: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

/// One manifest, and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    base: String,
    #[serde(default)]
    change: Value,
    refused: Option<String>,
}

pub async fn every_manifest_is_accepted_or_refused_with_its_sentence(cx: Context) -> TestResult {
    let plane = with_our_kinds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let (mut good, mut bad, mut wrong) = (0, 0, Vec::new());
    for (file, text) in FILES {
        let table: Table = serde_saphyr::from_str(text)?;
        for case in table.cases {
            let mut manifest =
                table.bases.get(&case.base).ok_or_else(|| format!("{file}: no base {}", case.base))?.clone();
            if !case.change.is_null() {
                merge(&mut manifest, &case.change);
            }
            let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&manifest, &ns));
            let refused = call(&client, "POST", &path, &manifest).await.err().map(|said| sentence(&said));
            if case.refused.is_some() {
                bad += 1
            } else {
                good += 1
            }
            if refused != case.refused {
                wrong.push(format!(
                    "{file}: {}\n  expected: {}\n  the API server: {}",
                    case.name,
                    case.refused.as_deref().unwrap_or("accepted"),
                    refused.as_deref().unwrap_or("accepted")
                ));
            }
        }
    }
    println!("manifests: {good} good, {bad} bad");
    assert!(wrong.is_empty(), "{} of {} manifests:\n{}", wrong.len(), good + bad, wrong.join("\n"));
    assert!(good + bad >= AT_LEAST, "only {} manifests", good + bad);
    Ok(())
}

/// What is wrong, without the kind and name of the object that it is wrong with, and without the remark that the API server
/// adds when the manifest's shape already keeps it from evaluating rules.
fn sentence(said: &str) -> String {
    const REMARK: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was \
                          invalid; correct the existing errors to complete validation]";
    let sentence = said.split_once("\" is invalid: ").map_or(said, |(_, sentence)| sentence);
    sentence.strip_suffix(REMARK).and_then(|list| list.strip_prefix('[')).unwrap_or(sentence).to_owned()
}
