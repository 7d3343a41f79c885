//! Edits every field of the spec on a running node. Each edit must be applied by a plan, rejected by the API server, or reported
//! in a condition; none may be ignored silently.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod edit;
#[path = "../node_operator/fixture.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod fixture;
mod outcome;
mod path;
mod schema;
mod variants;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use runtime::sync::lock;
use testbed::{Context, Error, TestResult};
use tokio::task::JoinSet;

use crate::edit::Edit;
use crate::fixture::Fixture;
use crate::outcome::{EditOutcome, EditTester, NodeSlot};
use crate::schema::Schema;

testbed::suite![every_spec_edit_has_a_visible_effect];

/// Concurrent nodes of each variant.
const NODES_PER_VARIANT: usize = 3;

/// Fields of a shared type that a validation rule forbids for one node kind.
const NEVER_VALID: [&str; 1] = ["spec.replayer.snapshot.stateSync"];

async fn every_spec_edit_has_a_visible_effect(cx: Context) -> TestResult {
    let begin = Instant::now();
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let schema = Schema::for_nodes();
    let variants = variants::all(&schema);
    let mut work = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let edits = edit::all(&schema, variant);
        // Each edit may need its own node.
        // Only one node may use a signing key.
        let has_signing_key = !variant.spec["validator"]["signingKey"].is_null();
        let slots = if has_signing_key { 1 } else { NODES_PER_VARIANT };
        let names = (0..slots).map(|slot| {
            // Short: a certificate has the host names of all nodes with TLS, and those of more than 64 KiB are not valid.
            (0..edits.len()).map(|number| format!("n{index}-{slot}-{number}")).collect::<Vec<_>>()
        });
        work.push((names.collect::<Vec<_>>(), edits));
    }
    // Only nodes with TLS: a certificate with the names of all nodes would be too large for a handshake.
    let with_tls = work
        .iter()
        .filter(|(_, edits)| edits.iter().any(|edit| !edit.variant.spec["sidecar"]["tls"].is_null()));
    let names: Vec<String> = with_tls.flat_map(|(names, _)| names.concat()).collect();
    variants::create_secrets(&fixture.api(), &fixture.ns, &schema, &names).await?;
    let tester = Arc::new(EditTester::new(fixture.client.clone(), &fixture.ns));
    let mut running = JoinSet::new();
    for (names, edits) in work {
        let edits = Arc::new(Mutex::new(edits));
        for names in names {
            running.spawn(test_all(tester.clone(), edits.clone(), NodeSlot::new(names)));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut tested: BTreeSet<String> = BTreeSet::new();
    let mut failures = Vec::new();
    while let Some(finished) = running.join_next().await {
        for (edit, outcome) in finished? {
            match outcome {
                Ok(outcome) => {
                    *counts.entry(outcome.name()).or_default() += 1;
                    // A value that is invalid for every node does not test the field.
                    if !matches!(outcome, EditOutcome::Invalid | EditOutcome::Unchanged) {
                        tested.insert(edit.path.to_string());
                    }
                    if let EditOutcome::Ignored(status) = outcome {
                        failures.push(format!("{edit} was ignored: {status}"));
                    }
                }
                Err(error) => failures.push(format!("{edit}: {error}")),
            }
        }
    }
    let fields: Vec<String> = schema.leaves().map(|(path, _)| path.to_string()).collect();
    let valid = fields.iter().filter(|field| !NEVER_VALID.contains(&field.as_str()));
    let untested = valid.filter(|field| !tested.contains(*field));
    failures.extend(untested.map(|field| format!("{field}: no edit was tested")));
    println!(
        "{} fields, {} of them edited on running nodes of {} variants, {} never valid: {counts:?}; {} s",
        fields.len(),
        fields.iter().filter(|field| tested.contains(*field)).count(),
        variants.len(),
        NEVER_VALID.len(),
        begin.elapsed().as_secs()
    );
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Tests edits until none is left.
async fn test_all(
    tester: Arc<EditTester>,
    edits: Arc<Mutex<Vec<Edit>>>,
    mut slot: NodeSlot,
) -> Vec<(Edit, Result<EditOutcome, Error>)> {
    let mut tested = Vec::new();
    while let Some(edit) = next(&edits) {
        let outcome = tester.test(&edit, &mut slot).await;
        tested.push((edit, outcome));
    }
    tested
}

fn next(edits: &Mutex<Vec<Edit>>) -> Option<Edit> {
    lock(edits).pop()
}
