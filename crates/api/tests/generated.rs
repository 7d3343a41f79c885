//! Generated files that are checked in.

#![allow(clippy::panic, reason = "helpers of tests may panic as tests may")]

use std::fmt::Write;

use api::condition::{self, Entry};
use api::names::{
    annotation, container, data_key, env, finalizer, group, kms, label, lease, manager, object, path, port,
    port_name, process_id, role, scheduling, task, volume,
};
use api::sidecar_wire::exposure::{self, Values};
use api::sidecar_wire::{self, TaskType};

/// Fails the test if a file differs from the generated content.
fn check(path: &str, now: &str) {
    testbed::harness::generated::check(path, now).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn condition_reference_is_up_to_date() {
    let mut page = String::from(
        "# Conditions\n\n\
         All conditions that Outrigger sets, with their reasons. Types, statuses and reasons are stable; each reason belongs to one\n\
         status. Messages may change. This page is generated from the code; do not edit it.\n\n\
         In addition, the KMS reporter of each node sets `KMSHealthReporter_<node>` on resources of `operator.openshift.io`. It is\n\
         always True with reason `AsExpected`; its message contains the reports as a JSON document.\n",
    );
    let mut last = "";
    for Entry { kinds, condition, about, status, reason, meaning, remedy } in
        condition::ALL.iter().copied().flatten()
    {
        if *condition != last {
            last = condition;
            let _ = write!(
                page,
                "\n## {condition}\n\n{about} Set on: {kinds}.\n\n| status | reason | meaning | action |\n|---|---|---|---|\n"
            );
        }
        let _ = writeln!(page, "| {} | `{reason}` | {meaning} | {remedy} |", status.as_str());
    }
    check("docs/reference/conditions.md", &page);
}

#[test]
fn sidecar_exposure_reference_is_up_to_date() {
    let mut page = String::from(
        "# What a sidecar exposes without authentication\n\n\
         This page is generated from the code; do not edit it.\n\n\
         The proxy in front of a sidecar authenticates and authorizes requests to every path except:\n\n",
    );
    for (path, content) in sidecar_wire::path::UNAUTHENTICATED.iter().zip([
        "whether seid may start, as a status code without a body",
        "same as `/v0/healthz`",
        "whether the sidecar is alive, as a status code; `?verbose=1` adds the names of failed checks",
        "metrics with the labels below",
    ]) {
        let _ = writeln!(page, "- `{path}`: {content}");
    }
    page.push_str(
        "\nThe node's NetworkPolicy limits who can connect to the proxy: port 8443 is open to the operator and to the clients in\n\
         `--sidecar-clients`. Add scrapers there.\n\n\
         Metrics have only the labels below. Neither callers nor Secrets can put text into them. Parameters, results and errors of\n\
         tasks, and the names of callers, are visible only to authenticated clients that are authorized to read tasks. So is the\n\
         state of the chain (`/v0/chain`): the proxy requires the verb `get` on `seinodetasks` of the node for it. A dry-run of a\n\
         task (`/v0/dry-run`) needs `create`, like the task itself: its errors may quote the node's configuration.\n\n\
         | label | values | description |\n|---|---|---|\n",
    );
    for (label, values, about) in exposure::LABELS {
        let values = match values {
            Values::TaskType => "task types".to_owned(),
            Values::TaskState => "`running`, `completed`, `failed`".to_owned(),
            Values::Words(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            Values::Name => "a name with letters, digits and `-_.+`".to_owned(),
            Values::Number => "a number".to_owned(),
        };
        let _ = writeln!(page, "| `{label}` | {values} | {about} |");
    }
    check("docs/reference/sidecar-exposure.md", &page);
}

#[test]
fn crd_manifests_are_up_to_date() {
    for crd in api::crd::all() {
        let path = format!("deploy/crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let yaml = serde_saphyr::to_string(&crd).unwrap_or_else(|error| panic!("{path}: {error}"));
        check(&path, &yaml);
    }
}

#[test]
fn interface_names_match_golden_file() {
    let mut golden =
        String::from("# Names that are part of the interface. A change breaks existing users.\n");
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
        ("network_policy", object::network_policy("node")),
        ("disruption_budget", object::disruption_budget("node")),
        ("bootstrap_job", object::bootstrap_job("node")),
        ("pod_host", object::pod_host("node", "ns")),
        ("service_host", object::service_host("node", "ns")),
        ("fleet_node", object::fleet_node("fleet", 0)),
        ("internal_service", object::internal_service("fleet")),
        ("external_service", object::external_service("fleet")),
        ("route", object::route("fleet", "evm")),
        ("sidecar_audience", object::sidecar_audience("node", "ns")),
    ] {
        let _ = writeln!(golden, "object::{name} = {value}");
    }
    for task in TaskType::ALL {
        let _ = writeln!(golden, "sidecar_wire::TaskType::{task:?} = {task}");
    }
    for path in sidecar_wire::path::UNAUTHENTICATED.iter().chain(&[
        sidecar_wire::path::STATUS,
        sidecar_wire::path::NODE_ID,
        sidecar_wire::path::CHAIN,
        sidecar_wire::path::TASKS,
        sidecar_wire::APP_HASH_AT,
        sidecar_wire::USER_HEADER,
        sidecar_wire::TASK_KIND_HEADER,
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
