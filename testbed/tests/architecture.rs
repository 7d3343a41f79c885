//! Checks the dependencies between the crates of the workspace with `cargo metadata`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Each crate, and the crates it may depend on. Every crate may have `testbed` as a dev-dependency.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 10] = [
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

/// Crates that compute and never do I/O.
const PURE_CRATES: [&str; 3] = ["api", "chain", "plan"];

/// What a pure crate must not depend on, directly or transitively: HTTP clients, async runtimes.
const FORBIDDEN_IN_PURE: [&str; 4] = ["hyper", "kube-client", "kube-runtime", "tokio"];

/// Returns every dependency in `cargo metadata` that violates the rules.
fn violations(metadata: &Value) -> Vec<String> {
    let packages: Vec<&Value> =
        metadata["packages"].as_array().map(|all| all.iter().collect()).unwrap_or_default();
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let id = |package: &Value| package["id"].as_str().unwrap_or_default().to_owned();
    let crate_dir = |manifest: &str| -> String {
        let folder = Path::new(manifest).parent().and_then(Path::file_name);
        folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let crates_by_package: BTreeMap<String, String> = packages
        .iter()
        .filter(|package| members.contains(id(package).as_str()))
        .map(|package| {
            (
                package["name"].as_str().unwrap_or_default().into(),
                crate_dir(package["manifest_path"].as_str().unwrap_or_default()),
            )
        })
        .collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED_DEPENDENCIES.into_iter().collect();

    let mut found = Vec::new();
    for package in packages.iter().filter(|package| members.contains(id(package).as_str())) {
        let name = &crates_by_package[package["name"].as_str().unwrap_or_default()];
        let Some(allowed_here) = allowed.get(name.as_str()) else {
            found.push(format!("{name} is not in ALLOWED_DEPENDENCIES"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(used) = dependency["name"].as_str().and_then(|name| crates_by_package.get(name)) else {
                continue;
            };
            let is_dev = dependency["kind"] == "dev";
            let allowed = allowed_here.contains(&used.as_str()) || (is_dev && used == "testbed");
            if !allowed {
                found.push(format!("{name} must not depend on {used}"));
            }
        }
        if PURE_CRATES.contains(&name.as_str()) {
            for forbidden in transitive_dependencies(metadata, &id(package))
                .intersection(&BTreeSet::from(FORBIDDEN_IN_PURE.map(String::from)))
            {
                found.push(format!("{name} must stay pure but depends on {forbidden}"));
            }
        }
    }
    found
}

/// Returns the names of all transitive normal dependencies.
fn transitive_dependencies(metadata: &Value, from: &str) -> BTreeSet<String> {
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
            let is_normal =
                dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null());
            if let Some(next) = dependency["pkg"].as_str().filter(|next| is_normal && seen.insert(*next)) {
                queue.push(next);
            }
        }
    }
    seen.into_iter().filter_map(|id| names.get(id)).map(|name| (*name).to_owned()).collect()
}

#[test]
fn crate_dependencies_follow_the_architecture() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        // Crates of other platforms are in the lock file but may not have been downloaded.
        .args(["--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(metadata["workspace_members"].as_array().unwrap().len() >= 2);
    assert_eq!(violations(&metadata), Vec::<String>::new());
}

/// Builds metadata of a workspace in `crates/`, with dependencies given as (name, kind).
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
fn forbidden_dependency_is_reported() {
    let metadata = workspace(&[("api", &[("plan", Value::Null)]), ("plan", &[])]);
    assert_eq!(violations(&metadata), ["api must not depend on plan"]);
}

#[test]
fn testbed_is_a_dev_dependency_only() {
    let in_tests = workspace(&[("operator", &[("testbed", json!("dev"))]), ("testbed", &[])]);
    assert_eq!(violations(&in_tests), Vec::<String>::new());
    let shipped = workspace(&[("operator", &[("testbed", Value::Null)]), ("testbed", &[])]);
    assert_eq!(violations(&shipped), ["operator must not depend on testbed"]);
}

#[test]
fn transitive_runtime_of_pure_crate_is_reported() {
    let metadata =
        workspace(&[("plan", &[("api", Value::Null)]), ("api", &[("tokio", Value::Null)]), ("tokio", &[])]);
    assert_eq!(
        violations(&metadata),
        ["plan must stay pure but depends on tokio", "api must stay pure but depends on tokio"]
    );
    let in_tests = workspace(&[("api", &[("tokio", json!("dev"))]), ("tokio", &[])]);
    assert_eq!(violations(&in_tests), Vec::<String>::new());
}

#[test]
fn unknown_crate_is_reported() {
    assert_eq!(violations(&workspace(&[("utils", &[])])), ["utils is not in ALLOWED_DEPENDENCIES"]);
}
