//! Files that are made from the code and checked in.

#![allow(clippy::panic, reason = "helpers of tests may panic as tests may")]

use std::fmt::Write;

use api::condition::{self, Entry};
use api::names::{
    annotation, container, data_key, env, finalizer, group, kms, label, lease, manager, object, path, port,
    port_name, process_id, role, scheduling, task, volume,
};
use api::sidecar_wire::exposure::{self, Values};
use api::sidecar_wire::{self, TaskType};

/// Fails the test when a file is not what is generated now.
fn check(path: &str, now: &str) {
    testbed::harness::generated::check(path, now).unwrap_or_else(|error| panic!("{error}"));
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
    check("docs/reference/conditions.md", &page);
}

#[test]
fn the_table_of_what_a_sidecar_shows_is_up_to_date() {
    let mut page = String::from(
        "# What a sidecar shows without a token\n\n\
         This page is made from the code: do not edit it.\n\n\
         The proxy before a sidecar asks for a token, and whether its owner may, at every path but these:\n\n",
    );
    for (path, shows) in sidecar_wire::path::UNAUTHENTICATED.iter().zip([
        "whether seid may start, as a code without a body",
        "the same",
        "whether the sidecar works, as a code; `?verbose=1` adds which check failed, and nothing else",
        "metrics, as below",
    ]) {
        let _ = writeln!(page, "- `{path}`: {shows}");
    }
    page.push_str(
        "\nWho reaches the proxy at all is up to the node's NetworkPolicy: port 8443 is open to the operator and to the clients that\n\
         `--sidecar-clients` names, so a scraper must be named there.\n\n\
         Metrics are numbers. Their labels are these, and no others; no caller and no Secret can put text into them. What tasks\n\
         were given, what they returned, why they failed, and who called, is shown only to who has a token and may read tasks.\n\n\
         | label | values | what it tells |\n|---|---|---|\n",
    );
    for (label, values, about) in exposure::LABELS {
        let values = match values {
            Values::TaskType => "kinds of tasks".to_owned(),
            Values::TaskState => "`running`, `completed`, `failed`".to_owned(),
            Values::Words(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            Values::Name => "a name of letters, digits and `-_.+`".to_owned(),
            Values::Number => "a number".to_owned(),
        };
        let _ = writeln!(page, "| `{label}` | {values} | {about} |");
    }
    check("docs/reference/sidecar-exposure.md", &page);
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
        ("kms::pod", kms::pod::ALL),
        ("kms::encryption_config", kms::encryption_config::ALL),
        ("kms::preflight", kms::preflight::ALL),
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
