//! RBAC in `deploy/kms` is sufficient and minimal: every permission is used.

use kube::api::{Api, DynamicObject};
use serde_json::json;
use testbed::cluster::control_plane::User;
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::faults::fault_proxy::{EventType, FaultProxy, RequestMatcher, Times, Verb};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::fixture::{
    AUTHENTICATION, Fixture, Form, KMS_HEALTH, KUBE, Kind, OPENSHIFT, TIMEOUT, failing, healthy,
    install_cluster_operators, install_manifests,
};
use crate::permissions::until_all_used;

const DEGRADED: &str = "KMSPluginsDegraded";

/// OpenShift's kinds, the namespaces of their API servers, and their ClusterOperators.
const OPERATORS: [(Kind, &str, &str); 3] = [
    (KUBE, "openshift-kube-apiserver", "kube-apiserver"),
    (OPENSHIFT, "openshift-apiserver", "openshift-apiserver"),
    (AUTHENTICATION, "openshift-oauth-apiserver", "authentication"),
];

/// Creates the objects of a cluster whose API servers encrypt with key 1 on node `a`.
async fn set_up_encryption(fixture: &mut Fixture) -> Result<(), Error> {
    for (kind, namespace, _) in OPERATORS {
        crate::fixture::kubectl(&fixture.plane, &["create", "namespace", namespace])?;
        fixture.ns = namespace.into();
        fixture.deploy_keys("encryption-config-1", &[1]).await?;
        fixture.create(kind, "cluster", json!({ "managementState": "Managed" })).await?;
        if kind == KUBE {
            fixture.set_static_pods(&[("a", 1)]).await?;
        } else {
            fixture.create_ready_pods(&["a"], "1").await?;
        }
    }
    fixture.create(KMS_HEALTH, "cluster", json!({ "expectedNodes": ["a"] })).await
}

/// Configures the namespaces that the generated RBAC is for.
fn in_openshift_namespaces(program: Program) -> Program {
    OPERATORS.iter().fold(
        program.flag("pod-namespace", "outrigger-kms"),
        |program, (_, namespace, operator)| {
            let flag = if *operator == "authentication" { "oauth-apiserver" } else { operator };
            program.flag(&format!("{flag}-namespace"), namespace)
        },
    )
}

/// Starts an aggregator with `--cluster-operator` and leader election.
fn with_cluster_operator(
    fixture: &Fixture,
    user: &User,
    kind: Kind,
    operator: &str,
) -> Result<Process, Error> {
    fixture.aggregator_as(&format!("aggregator-{operator}"), user, kind.target, |program| {
        in_openshift_namespaces(program).flag("cluster-operator", operator)
    })
}

/// Waits until a ClusterOperator has conditions, or is deleted.
async fn until_operator_exists(
    operators: &Api<DynamicObject>,
    name: &str,
    exists: bool,
) -> Result<(), Error> {
    wait::until(format!("ClusterOperator {name}, exists: {exists}"), TIMEOUT, || async {
        let found = operators.get_opt(name).await.map_err(|error| error.to_string())?;
        let has_conditions = found.as_ref().is_some_and(|one| one.data["status"]["conditions"].is_array());
        if has_conditions == exists && (exists || found.is_none()) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}

/// Includes `--cluster-operator`. The aggregator reads an object by name only if its watch lost an own write.
pub async fn aggregator_rbac_is_sufficient_and_minimal(cx: Context) -> TestResult {
    let files = ["aggregator-rbac.yaml", "aggregator-openshift-rbac.yaml"];
    let mut fixture = Fixture::new(&cx).await?;
    let operators = install_cluster_operators(&fixture).await?;
    set_up_encryption(&mut fixture).await?;
    install_manifests(&fixture.plane, &files)?;
    let name = "system:serviceaccount:outrigger-kms:outrigger-kms-aggregator";
    let user = fixture.plane.user(name, None)?;
    let proxy = FaultProxy::start(&fixture.plane).await?;
    let kinds = [KUBE, OPENSHIFT, AUTHENTICATION, KMS_HEALTH];
    let nodes = [("a", vec![healthy("1")]), ("gone", vec![healthy("1")])];
    let reporters = kinds.map(|kind| fixture.reporters(kind, "cluster", Form::Typed, &nodes));
    let targets = kinds.map(|kind| kind.target).join(",");
    let aggregator =
        fixture.aggregator_as("aggregator", &user.at(proxy.url()), &targets, in_openshift_namespaces)?;
    for kind in kinds {
        fixture.until(kind, "cluster", DEGRADED, "AsExpected").await?;
    }
    // A report is removed, which emits an event.
    reporters.iter().for_each(|all| all.set("gone", &[]));
    for kind in kinds {
        fixture.until_reports(kind, "cluster", &["a/1"]).await?;
    }
    // The watch drops events, so it misses the next write.
    let lost = proxy.drop_events(
        [EventType::Modified],
        RequestMatcher::any().verb(Verb::Watch).name("cluster"),
        Times::Always,
    );
    reporters.iter().for_each(|all| all.set("a", &[failing("1")]));
    for kind in kinds {
        fixture.until(kind, "cluster", DEGRADED, "PluginError").await?;
    }
    lost.remove();
    aggregator.stop(TIMEOUT)?;
    // Three aggregators in one namespace, each with its own Lease: all lead.
    let mut all = Vec::new();
    for (kind, _, operator) in OPERATORS {
        all.push(with_cluster_operator(&fixture, &user, kind, operator)?);
    }
    for (kind, _, operator) in OPERATORS {
        until_operator_exists(&operators, operator, true).await?;
        fixture.delete(kind, "cluster").await?;
        until_operator_exists(&operators, operator, false).await?;
    }
    until_all_used(&fixture.plane, &files, name, &[], TIMEOUT).await?;
    Ok(())
}

/// Reporters read previous reports, and write.
pub async fn reporter_rbac_is_sufficient_and_minimal(cx: Context) -> TestResult {
    let files = ["reporter-rbac.yaml", "reporter-policy.yaml"];
    let fixture = Fixture::new(&cx).await?;
    install_manifests(&fixture.plane, &files)?;
    let dir = fixture.site.dir().join("kmsplugin");
    std::fs::create_dir_all(&dir)?;
    let _plugin = FakeKmsPlugin::start("kms-1", &dir)?;
    let name = "kms-health-reporter:a";
    let user = fixture.plane.user(name, Some("kms-health-reporters"))?;
    let mut all = Vec::new();
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION, KMS_HEALTH] {
        let spec = if kind == KMS_HEALTH { json!({}) } else { json!({ "managementState": "Managed" }) };
        fixture.create(kind, "cluster", spec).await?;
        let home = fixture.site.dir().join(kind.target);
        std::fs::create_dir_all(&home)?;
        let reporter = Program::new(format!("reporter-{}", kind.target), binaries::path("outrigger")?)
            .arg("kms-reporter")
            .flag("kms-sockets", format!("unix://{}/kms-1.sock", dir.display()))
            .flag("socket-dir", &dir)
            .flag("node-name", "a")
            .flag("interval", "1s")
            .flag("target", kind.target)
            .flag("publish", if kind == KMS_HEALTH { "kmshealth" } else { "typed" })
            .flag("kubeconfig", user.write_kubeconfig(&home)?);
        all.push(reporter.start(&fixture.site)?);
        fixture.until_reports(kind, "cluster", &["a/1"]).await?;
    }
    until_all_used(&fixture.plane, &files, name, &[], TIMEOUT).await?;
    Ok(())
}
