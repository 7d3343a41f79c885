//! The rights that are shipped in `deploy/kms` are enough, and each of them is used: nothing else is allowed.

use kms::access;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use testbed::cluster::control_plane::User;
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::faults::fault_proxy::{EventType, FaultProxy, Matching, Times, Verb};
use testbed::harness::binaries;
use testbed::harness::rights;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::ground::{
    AUTHENTICATION, Form, Ground, KUBE, Kind, OPENSHIFT, OURS, SOON, cluster_operators, ship, sick, well,
};

const DEGRADED: &str = "KMSPluginsDegraded";

/// Each kind of OpenShift, where its API servers are, and its ClusterOperator.
const OPERATORS: [(Kind, &str, &str); 3] = [
    (KUBE, "openshift-kube-apiserver", "kube-apiserver"),
    (OPENSHIFT, "openshift-apiserver", "openshift-apiserver"),
    (AUTHENTICATION, "openshift-oauth-apiserver", "authentication"),
];

/// The documents of files that are shipped.
fn documents(files: &[&str]) -> Vec<Value> {
    access::files().into_iter().filter(|(name, _)| files.contains(name)).flat_map(|(_, all)| all).collect()
}

/// Waits until every right was used by somebody, who was refused nothing.
async fn until_used(ground: &Ground, files: &[&str], user: &str) -> Result<(), Error> {
    let documents = documents(files);
    wait::until("the use of every right", SOON, || async {
        let requests =
            ground.plane.audit().requests(|one| one.user == user).map_err(|error| error.to_string())?;
        let unused = rights::unused(&documents, &requests);
        if unused.is_empty() { Ok(()) } else { Err(format!("these are not used: {unused:#?}")) }
    })
    .await?;
    let refused = ground.plane.audit().requests(|one| one.user == user && one.code == 403)?;
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}

/// Everything that a cluster has whose API servers encrypt with key 1, on node `a`.
async fn encrypting(ground: &mut Ground) -> Result<(), Error> {
    for (kind, namespace, _) in OPERATORS {
        crate::ground::kubectl(&ground.plane, &["create", "namespace", namespace])?;
        ground.ns = namespace.into();
        ground.deploy("encryption-config-1", &[1]).await?;
        ground.object(kind, "cluster", json!({ "managementState": "Managed" })).await?;
        if kind == KUBE {
            ground.static_pods(&[("a", 1)]).await?;
        } else {
            ground.pods(&["a"], "1").await?;
        }
    }
    ground.object(OURS, "cluster", json!({ "expectedNodes": ["a"] })).await
}

fn there(program: Program) -> Program {
    OPERATORS.iter().fold(
        program.flag("pod-namespace", "outrigger-kms"),
        |program, (_, namespace, operator)| {
            let flag = if *operator == "authentication" { "oauth-apiserver" } else { operator };
            program.flag(&format!("{flag}-namespace"), namespace)
        },
    )
}

/// One that puts the conditions of a kind on its ClusterOperator, elected as every other that does.
fn showing(ground: &Ground, user: &User, kind: Kind, operator: &str) -> Result<Process, Error> {
    ground.aggregator_as(&format!("showing-{operator}"), user, kind.target, |program| {
        there(program).flag("cluster-operator", operator)
    })
}

/// Waits until a ClusterOperator is there or gone.
async fn until_shown(operators: &Api<DynamicObject>, name: &str, there: bool) -> Result<(), Error> {
    wait::until(format!("ClusterOperator {name}, there: {there}"), SOON, || async {
        let found = operators.get_opt(name).await.map_err(|error| error.to_string())?;
        let told = found.as_ref().is_some_and(|one| one.data["status"]["conditions"].is_array());
        if told == there && (there || found.is_none()) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
}

/// Issue 6: RBAC allows nothing else, with `--cluster-operator` too. Only a watch that has lost an own write makes the aggregator
/// read an object by its name.
pub async fn an_aggregator_may_do_what_it_does_and_nothing_else(cx: Context) -> TestResult {
    let files = ["aggregator-rbac.yaml", "aggregator-openshift-rbac.yaml"];
    let mut ground = Ground::of(&cx).await?;
    let operators = cluster_operators(&ground).await?;
    encrypting(&mut ground).await?;
    ship(&ground.plane, &files)?;
    let name = "system:serviceaccount:outrigger-kms:outrigger-kms-aggregator";
    let user = ground.plane.user(name, None)?;
    let proxy = FaultProxy::before(&ground.plane).await?;
    let kinds = [KUBE, OPENSHIFT, AUTHENTICATION, OURS];
    let nodes = [("a", vec![well("1")]), ("gone", vec![well("1")])];
    let reporters = kinds.map(|kind| ground.reporters(kind, "cluster", Form::Typed, &nodes));
    let targets = kinds.map(|kind| kind.target).join(",");
    let aggregator = ground.aggregator_as("aggregator", &user.at(proxy.url()), &targets, there)?;
    for kind in kinds {
        ground.until(kind, "cluster", DEGRADED, "AsExpected").await?;
    }
    // An entry is removed, and that is told by an event.
    reporters.iter().for_each(|all| all.set("gone", &[]));
    for kind in kinds {
        ground.until_entries(kind, "cluster", &["a/1"]).await?;
    }
    // A watch that delivers nothing: it cannot have seen what is written next.
    let lost = proxy.drop_events(
        [EventType::Modified],
        Matching::any().verb(Verb::Watch).name("cluster"),
        Times::Always,
    );
    reporters.iter().for_each(|all| all.set("a", &[sick("1")]));
    for kind in kinds {
        ground.until(kind, "cluster", DEGRADED, "PluginError").await?;
    }
    lost.lift();
    aggregator.stop(SOON)?;
    // Three in one namespace, and each leads: none waits for another's Lease.
    let mut all = Vec::new();
    for (kind, _, operator) in OPERATORS {
        all.push(showing(&ground, &user, kind, operator)?);
    }
    for (kind, _, operator) in OPERATORS {
        until_shown(&operators, operator, true).await?;
        ground.remove(kind, "cluster").await?;
        until_shown(&operators, operator, false).await?;
    }
    until_used(&ground, &files, name).await?;
    Ok(())
}

/// The same of reporters, which read what an earlier process has left, and write.
pub async fn a_reporter_may_do_what_it_does_and_nothing_else(cx: Context) -> TestResult {
    let files = ["reporter-rbac.yaml", "reporter-policy.yaml"];
    let ground = Ground::of(&cx).await?;
    ship(&ground.plane, &files)?;
    let folder = ground.site.dir().join("kmsplugin");
    std::fs::create_dir_all(&folder)?;
    let _plugin = KmsPlugin::start("kms-1", &folder)?;
    let name = "kms-health-reporter:a";
    let user = ground.plane.user(name, Some("kms-health-reporters"))?;
    let mut all = Vec::new();
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION, OURS] {
        let spec = if kind == OURS { json!({}) } else { json!({ "managementState": "Managed" }) };
        ground.object(kind, "cluster", spec).await?;
        let home = ground.site.dir().join(kind.target);
        std::fs::create_dir_all(&home)?;
        let reporter = Program::new(format!("reporter-{}", kind.target), binaries::path("outrigger")?)
            .arg("kms-reporter")
            .flag("kms-sockets", format!("unix://{}/kms-1.sock", folder.display()))
            .flag("socket-dir", &folder)
            .flag("node-name", "a")
            .flag("interval", "1s")
            .flag("target", kind.target)
            .flag("publish", if kind == OURS { "kmshealth" } else { "typed" })
            .flag("kubeconfig", user.write_kubeconfig(&home)?);
        all.push(reporter.start(&ground.site)?);
        ground.until_entries(kind, "cluster", &["a/1"]).await?;
    }
    until_used(&ground, &files, name).await?;
    Ok(())
}
