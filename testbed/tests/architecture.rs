//! Who may know whom: the arrows between the rooms of the house, checked on what cargo itself says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Each room, and the rooms it may use. Every room may use `testbed` in its tests, and nothing else may.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("api", &[]),
    ("chain", &["api"]),
    ("plan", &["api", "chain"]),
    ("runtime", &["api"]),
    ("operator", &["api", "plan", "runtime"]),
    ("proxy", &["api", "runtime"]),
    ("sidecar", &["api", "chain", "runtime"]),
    ("kms", &["api", "plan", "runtime"]),
    ("cli", &["api", "chain", "plan", "runtime", "operator", "proxy", "sidecar", "kms"]),
    ("testbed", &["api", "chain"]),
];

/// Rooms that decide and never act.
const PURE: [&str; 3] = ["api", "chain", "plan"];

/// What a pure room must not reach, by whatever way: a client, a runtime, a socket.
const IMPURE: [&str; 4] = ["hyper", "kube-client", "kube-runtime", "tokio"];

/// Every arrow of `cargo metadata` that the table does not allow, one sentence each.
fn violations(metadata: &Value) -> Vec<String> {
    let packages: Vec<&Value> =
        metadata["packages"].as_array().map(|all| all.iter().collect()).unwrap_or_default();
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let id = |package: &Value| package["id"].as_str().unwrap_or_default().to_owned();
    let room = |manifest: &str| -> String {
        let folder = Path::new(manifest).parent().and_then(Path::file_name);
        folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let rooms: BTreeMap<String, String> = packages
        .iter()
        .filter(|package| members.contains(id(package).as_str()))
        .map(|package| {
            (
                package["name"].as_str().unwrap_or_default().into(),
                room(package["manifest_path"].as_str().unwrap_or_default()),
            )
        })
        .collect();
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();

    let mut found = Vec::new();
    for package in packages.iter().filter(|package| members.contains(id(package).as_str())) {
        let own = &rooms[package["name"].as_str().unwrap_or_default()];
        let Some(may_use) = allowed.get(own.as_str()) else {
            found.push(format!("{own} is no room of the house: see MAY_USE"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(used) = dependency["name"].as_str().and_then(|name| rooms.get(name)) else { continue };
            let for_tests = dependency["kind"] == "dev";
            let allowed = may_use.contains(&used.as_str()) || (for_tests && used == "testbed");
            if !allowed {
                found.push(format!("{own} uses {used}, which it may not know"));
            }
        }
        if PURE.contains(&own.as_str()) {
            for impure in
                reached(metadata, &id(package)).intersection(&BTreeSet::from(IMPURE.map(String::from)))
            {
                found.push(format!("{own} must stay pure and reaches {impure}"));
            }
        }
    }
    found
}

/// Names of every package that one reaches through ordinary dependencies.
fn reached(metadata: &Value, from: &str) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut queue = vec![from];
    while let Some(id) = queue.pop() {
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        for dependency in dependencies {
            let ordinary =
                dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null());
            if let Some(next) = dependency["pkg"].as_str().filter(|next| ordinary && seen.insert(*next)) {
                queue.push(next);
            }
        }
    }
    seen.into_iter().filter_map(|id| names.get(id)).map(|name| (*name).to_owned()).collect()
}

#[test]
fn no_crate_uses_one_it_may_not_know() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        // Crates of other systems are in the lock file, but a machine that has only built has not fetched them.
        .args(["--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(metadata["workspace_members"].as_array().unwrap().len() >= 2);
    assert_eq!(violations(&metadata), Vec::<String>::new());
}

/// A workspace of crates in `crates/`, each with the dependencies given as (name, kind).
fn workspace(crates: &[(&str, &[(&str, Value)])]) -> Value {
    let packages: Vec<Value> = crates
        .iter()
        .map(|(name, uses)| {
            let uses: Vec<Value> = uses.iter().map(|(used, kind)| json!({ "name": used, "kind": kind })).collect();
            json!({ "id": name, "name": name, "manifest_path": format!("crates/{name}/Cargo.toml"), "dependencies": uses })
        })
        .collect();
    let nodes: Vec<Value> = crates
        .iter()
        .map(|(name, uses)| {
            let uses: Vec<Value> = uses
                .iter()
                .map(|(used, kind)| json!({ "pkg": used, "dep_kinds": [{ "kind": kind }] }))
                .collect();
            json!({ "id": name, "deps": uses })
        })
        .collect();
    let members: Vec<&str> = crates.iter().map(|(name, _)| *name).filter(|name| *name != "tokio").collect();
    json!({ "packages": packages, "workspace_members": members, "resolve": { "nodes": nodes } })
}

#[test]
fn a_forbidden_arrow_is_found() {
    let metadata = workspace(&[("api", &[("plan", Value::Null)]), ("plan", &[])]);
    assert_eq!(violations(&metadata), ["api uses plan, which it may not know"]);
}

#[test]
fn the_test_bed_is_for_tests_only() {
    let in_tests = workspace(&[("operator", &[("testbed", json!("dev"))]), ("testbed", &[])]);
    assert_eq!(violations(&in_tests), Vec::<String>::new());
    let shipped = workspace(&[("operator", &[("testbed", Value::Null)]), ("testbed", &[])]);
    assert_eq!(violations(&shipped), ["operator uses testbed, which it may not know"]);
}

#[test]
fn a_pure_room_that_reaches_a_runtime_through_another_crate_is_found() {
    let metadata =
        workspace(&[("plan", &[("api", Value::Null)]), ("api", &[("tokio", Value::Null)]), ("tokio", &[])]);
    assert_eq!(
        violations(&metadata),
        ["plan must stay pure and reaches tokio", "api must stay pure and reaches tokio"]
    );
    let in_tests = workspace(&[("api", &[("tokio", json!("dev"))]), ("tokio", &[])]);
    assert_eq!(violations(&in_tests), Vec::<String>::new());
}

#[test]
fn a_room_that_nobody_planned_is_found() {
    assert_eq!(violations(&workspace(&[("utils", &[])])), ["utils is no room of the house: see MAY_USE"]);
}
