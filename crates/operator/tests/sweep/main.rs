//! Edits every leaf of a node's spec, as its schema has them, on a running node. An edit is carried out by a plan, refused by
//! the API server, or named in a condition; none is ignored in silence.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod edit;
#[path = "../node_operator/ground.rs"]
#[allow(dead_code, reason = "what the ground offers to other suites is not all needed here")]
mod ground;
mod path;
mod schema;
mod specimen;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use testbed::{Context, Error, TestResult};
use tokio::task::JoinSet;

use crate::edit::Edit;
use crate::ground::Ground;
use crate::schema::Schema;
use crate::verdict::{Hand, Judge, Verdict};

testbed::suite![no_edit_of_a_running_node_is_ignored];

/// Nodes of each shape that are on their way at once.
const AT_ONCE: usize = 3;

/// Leaves of parts that kinds share, of which a rule lets one kind never have one.
const NEVER_VALID: [&str; 1] = ["spec.replayer.snapshot.stateSync"];

async fn no_edit_of_a_running_node_is_ignored(cx: Context) -> TestResult {
    let begin = Instant::now();
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let schema = Schema::of_nodes();
    let specimens = specimen::all(&schema);
    let mut work = Vec::new();
    for specimen in &specimens {
        let edits = edit::all(&schema, specimen);
        // Each edit may need a node of its own.
        let names = (0..AT_ONCE).map(|hand| {
            (0..edits.len()).map(|number| format!("{}-{hand}-{number}", specimen.name)).collect::<Vec<_>>()
        });
        work.push((names.collect::<Vec<_>>(), edits));
    }
    // A certificate for all names of all shapes would be too long for a handshake.
    let by_tls = work
        .iter()
        .filter(|(_, edits)| edits.iter().any(|edit| !edit.specimen.spec["sidecar"]["tls"].is_null()));
    let names: Vec<String> = by_tls.flat_map(|(names, _)| names.concat()).collect();
    specimen::make_secrets(&ground.api(), &ground.ns, &schema, &names).await?;
    let judge = Arc::new(Judge::new(ground.client.clone(), &ground.ns));
    let mut running = JoinSet::new();
    for (names, edits) in work {
        let edits = Arc::new(Mutex::new(edits));
        for names in names {
            running.spawn(try_all(judge.clone(), edits.clone(), Hand::of(names)));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut tried: BTreeSet<String> = BTreeSet::new();
    let mut failures = Vec::new();
    while let Some(ended) = running.join_next().await {
        for (edit, verdict) in ended? {
            match verdict {
                Ok(verdict) => {
                    *counts.entry(verdict.name()).or_default() += 1;
                    // A value that no node may have says nothing about the leaf.
                    if !matches!(verdict, Verdict::Invalid | Verdict::Same) {
                        tried.insert(edit.path.to_string());
                    }
                    if let Verdict::Ignored(status) = verdict {
                        failures.push(format!("{edit} is ignored: {status}"));
                    }
                }
                Err(error) => failures.push(format!("{edit}: {error}")),
            }
        }
    }
    let leaves: Vec<String> = schema.leaves().map(|(path, _)| path.to_string()).collect();
    let valid = leaves.iter().filter(|leaf| !NEVER_VALID.contains(&leaf.as_str()));
    let untried = valid.filter(|leaf| !tried.contains(*leaf));
    failures.extend(untried.map(|leaf| format!("{leaf}: no edit of it could be tried")));
    println!(
        "{} leaves, {} of them edited on running nodes of {} shapes, {} never valid: {counts:?}; {} s",
        leaves.len(),
        leaves.iter().filter(|leaf| tried.contains(*leaf)).count(),
        specimens.len(),
        NEVER_VALID.len(),
        begin.elapsed().as_secs()
    );
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Tries edits until none is left.
async fn try_all(
    judge: Arc<Judge>,
    edits: Arc<Mutex<Vec<Edit>>>,
    mut hand: Hand,
) -> Vec<(Edit, Result<Verdict, Error>)> {
    let mut tried = Vec::new();
    while let Some(edit) = next(&edits) {
        let verdict = judge.judge(&edit, &mut hand).await;
        tried.push((edit, verdict));
    }
    tried
}

fn next(edits: &Mutex<Vec<Edit>>) -> Option<Edit> {
    edits.lock().unwrap_or_else(PoisonError::into_inner).pop()
}
