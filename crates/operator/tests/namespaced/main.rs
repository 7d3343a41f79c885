//! The installation with namespaced permissions only, as users apply it. On its own API server, since all tests of a suite share the
//! cluster-wide permissions that are deleted here.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

#[path = "../node_operator/fixture.rs"]
#[expect(dead_code, reason = "other suites use the rest")]
mod fixture;

use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, ListParams, PostParams};
use operator::install::{self, ACCOUNT, NAMESPACE};
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::fakes::kubelet::ClaimPolicy;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT};

testbed::suite![operator_needs_no_cluster_wide_permissions];

/// The manifests of the operator.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// Writes an overlay, as users do, and applies it. `bases` gets the path from the overlay to the manifests: a kustomization refers to
/// others by relative paths.
fn apply_overlay(fixture: &Fixture<'_>, name: &str, bases: impl FnOnce(&str) -> String) -> Result<(), Error> {
    let io = |source| Error::Io { what: format!("writing the overlay {name}"), source };
    let overlay = fixture.site.dir().join(name);
    std::fs::create_dir_all(&overlay).map_err(io)?;
    let deploy = Path::new(DEPLOY).canonicalize().map_err(io)?;
    let up = "../".repeat(overlay.ancestors().count() - 1);
    let deploy = format!("{up}{}", deploy.strip_prefix("/").unwrap_or(&deploy).display());
    std::fs::write(overlay.join("kustomization.yaml"), bases(&deploy)).map_err(io)?;
    let overlay = overlay.display().to_string();
    kubectl::run(fixture.plane, &["apply", "--server-side", "--force-conflicts", "-k", &overlay], None)?;
    Ok(())
}

/// Installs the operator without cluster-wide permissions, and grants it those for the namespace of the fixture.
async fn install_namespaced(fixture: &Fixture<'_>) -> Result<(), Error> {
    let delete = ["delete", "clusterrole,clusterrolebinding", ACCOUNT];
    kubectl::run(fixture.plane, &delete, None)?;
    apply_overlay(fixture, "installation", |deploy| {
        format!("resources: [{deploy}]\ncomponents: [{deploy}/operator/namespaced]\n")
    })?;
    let roles: Api<ClusterRole> = Api::all(fixture.client.clone());
    assert!(roles.get_opt(ACCOUNT).await?.is_none(), "no cluster-wide permissions are installed");
    let settings: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), NAMESPACE);
    let settings = settings.list(&ListParams::default()).await?.items;
    let watched = settings.iter().find_map(|map| map.data.as_ref()?.get("OUTRIGGER_WATCH_NAMESPACES"));
    assert_eq!(watched.map(String::as_str), Some("sei"));
    apply_overlay(fixture, "node-namespace", |deploy| {
        format!("namespace: {}\nresources: [{deploy}/operator/namespaced/node-namespace]\n", fixture.ns)
    })?;
    // They take effect with a delay, and a denied request would be one that the operator must not send.
    let token = format!("serviceaccounts/{ACCOUNT}");
    for (verb, resource, subresource, namespace) in
        [("create", token.as_str(), "token", NAMESPACE), ("list", "seinodes.sei.io", "", &fixture.ns)]
    {
        let (user, subresource) = (fixture::user(), format!("--subresource={subresource}"));
        let review = ["auth", "can-i", verb, resource, &subresource, "--namespace", namespace, "--as", &user];
        wait::until(format!("the permission to {verb} {resource}"), TIMEOUT, || async {
            kubectl::run(fixture.plane, &review, None).map(drop)
        })
        .await?;
    }
    Ok(())
}

async fn operator_needs_no_cluster_wide_permissions(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    install_namespaced(&fixture).await?;
    let operator = fixture.spawn_operator(|program| program.flag("pod-namespace", NAMESPACE))?;
    fixture.create_ready("full", |_| {}).await?;
    // Its volume is cluster-scoped.
    fixture.kubelets.set_claim_policy(ClaimPolicy::BoundToVolume);
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "imported" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": { "requests": { "storage": "10Gi" } },
        },
    }))?;
    fixture.api::<PersistentVolumeClaim>().create(&PostParams::default(), &claim).await?;
    let import =
        |node: &mut Value| node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "imported" } });
    fixture.create_ready("importer", import).await?;
    operator.check_alive()?;

    let shipped = install::files().into_iter().filter(|(file, _)| *file == "operator/rbac.yaml");
    let in_own_namespace = shipped.flat_map(|(_, all)| all).filter(|one| one["kind"] == "Role");
    let documents: Vec<Value> = in_own_namespace
        .chain(install::node_namespace(&fixture.ns))
        .chain(install::watched_namespace(&fixture.ns))
        .collect();
    wait::until("no denied or ungranted request", TIMEOUT, || async {
        let problems = fixture.plane.audit().permission_problems(&fixture::user(), &documents, &[]);
        let mut problems = problems.map_err(|error| error.to_string())?;
        // Which permissions are needed is tested with the other installation, which grants the same ones.
        problems.retain(|problem| !problem.starts_with("granted and unused"));
        if problems.is_empty() { Ok(()) } else { Err(format!("{problems:#?}")) }
    })
    .await?;
    let leases = fixture
        .plane
        .audit()
        .requests(|request| request.user == fixture::user() && request.resource == "leases")?;
    assert!(leases.iter().all(|request| request.namespace == NAMESPACE) && !leases.is_empty(), "{leases:?}");
    Ok(())
}
