//! Files that are made from the code and checked in.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests may panic as tests may")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use api::condition::{self, Entry};
use api::names::{
    annotation, container, data_key, env, finalizer, group, label, lease, manager, object, path, port,
    port_name, process_id, role, scheduling, task, volume,
};
use api::sidecar_wire::{self, TaskType};

/// Set to write the files anew.
const REGENERATE: &str = "REGENERATE=1 cargo test --package outrigger-api --test generated";

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compares a file with what it should be, or writes it when asked to.
fn check(path: &str, now: &str) {
    let file = in_repository(path);
    if std::env::var_os("REGENERATE").is_some() {
        fs::write(&file, now).expect("the file can be written");
    }
    let checked_in = fs::read_to_string(&file).unwrap_or_default();
    if let Some((n, (was, is))) =
        checked_in.lines().zip(now.lines()).enumerate().find(|(_, (was, is))| was != is)
    {
        panic!("{path}:{}: is\n  {was}\nand should be\n  {is}\nIf that is wanted: {REGENERATE}", n + 1);
    }
    assert!(
        checked_in == now,
        "{path} is longer or shorter than it should be; if that is wanted: {REGENERATE}"
    );
}

#[test]
fn the_table_of_conditions_is_up_to_date() {
    let mut page = String::from(
        "# Conditions\n\n\
         Every condition that Outrigger sets, and every reason it gives. A reason belongs to one status. Messages are for people\n\
         and may change; types, statuses and reasons are interface. This page is made from the code: do not edit it.\n\n\
         Beside these, each node's KMS reporter sets `KMSHealthReporter_<node>` on resources of `operator.openshift.io`: always True,\n\
         always `AsExpected`, with its reports as a JSON document in the message.\n",
    );
    let mut last = "";
    for Entry { kinds, condition, about, status, reason, meaning, remedy } in
        condition::ALL.iter().copied().flatten()
    {
        if *condition != last {
            last = condition;
            let _ = write!(
                page,
                "\n## {condition}\n\n{about} On: {kinds}.\n\n| status | reason | what it says | what to do |\n|---|---|---|---|\n"
            );
        }
        let _ = writeln!(page, "| {} | `{reason}` | {meaning} | {remedy} |", status.as_str());
    }
    check("docs/conditions.md", &page);
}

#[test]
fn names_are_as_they_were() {
    let mut golden = String::from("# Names that others rely on. A change here breaks somebody.\n");
    for (module, names) in [
        ("group", group::ALL),
        ("finalizer", finalizer::ALL),
        ("manager", manager::ALL),
        ("lease", lease::ALL),
        ("label", label::ALL),
        ("role", role::ALL),
        ("annotation", annotation::ALL),
        ("scheduling", scheduling::ALL),
        ("container", container::ALL),
        ("volume", volume::ALL),
        ("path", path::ALL),
        ("data_key", data_key::ALL),
        ("port_name", port_name::ALL),
        ("env::operator", env::operator::ALL),
        ("env::sidecar", env::sidecar::ALL),
        ("task::node", task::node::ALL),
        ("task::fleet", task::fleet::ALL),
    ] {
        for (name, value) in names {
            let _ = writeln!(golden, "{module}::{name} = {value}");
        }
    }
    for (name, value) in port::ALL {
        let _ = writeln!(golden, "port::{name} = {value}");
    }
    for (name, value) in process_id::ALL {
        let _ = writeln!(golden, "process_id::{name} = {value}");
    }
    for (name, value) in [
        ("pod", object::pod("node")),
        ("data_claim", object::data_claim("node")),
        ("proxy_config", object::proxy_config("node")),
        ("sidecar_tls", object::sidecar_tls("node")),
        ("bootstrap_job", object::bootstrap_job("node")),
        ("pod_host", object::pod_host("node", "ns")),
        ("service_host", object::service_host("node", "ns")),
        ("fleet_node", object::fleet_node("fleet", 0)),
        ("internal_service", object::internal_service("fleet")),
        ("external_service", object::external_service("fleet")),
        ("route", object::route("fleet", "evm")),
    ] {
        let _ = writeln!(golden, "object::{name} = {value}");
    }
    for task in TaskType::ALL {
        let _ = writeln!(golden, "sidecar_wire::TaskType::{task:?} = {task}");
    }
    for path in sidecar_wire::path::UNAUTHENTICATED.iter().chain(&[
        sidecar_wire::path::STATUS,
        sidecar_wire::path::NODE_ID,
        sidecar_wire::path::TASKS,
        sidecar_wire::USER_HEADER,
    ]) {
        let _ = writeln!(golden, "sidecar_wire = {path}");
    }
    for crd in api::crd::all() {
        let names = crd.spec.names;
        let _ = writeln!(
            golden,
            "kind::{} = {}.{} {} {:?} {:?} {}",
            names.kind,
            names.plural,
            crd.spec.group,
            names.singular.unwrap_or_default(),
            names.short_names.unwrap_or_default(),
            names.categories.unwrap_or_default(),
            crd.spec.scope,
        );
    }
    check("crates/api/tests/names.golden", &golden);
}

/// The files themselves, byte for byte, are compared where they are written: in the command line's `tests/crds.rs`.
#[test]
fn the_definitions_in_deploy_are_those_of_the_types() {
    for crd in api::crd::all() {
        let path = format!("deploy/crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let text = fs::read_to_string(in_repository(&path)).unwrap_or_default();
        let checked_in: serde_json::Value = serde_saphyr::from_str(&text).expect("a definition is YAML");
        assert!(
            same(&checked_in, &serde_json::to_value(&crd).expect("a definition is JSON")),
            "{path} is not up to date; regenerate: cargo run --package outrigger -- crds --output-dir deploy/crds"
        );
    }
}

/// Equality of documents in which `1` and `1.0` are one number, as they are in YAML.
fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => a.as_f64() == b.as_f64(),
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}
