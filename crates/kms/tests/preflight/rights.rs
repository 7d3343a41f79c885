//! The rights that are shipped in `deploy/kms` are enough, and each of them is used: nothing else is allowed.

use kms::access;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::rights;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::ground::{CONFIG, Error, Ground, SOON, kms};

const FILE: &str = "preflight-rbac.yaml";

const KINDS: [(&str, &str); 3] = [
    ("KubeAPIServer", "openshift-kube-apiserver"),
    ("OpenShiftAPIServer", "openshift-apiserver"),
    ("Authentication", "openshift-oauth-apiserver"),
];

/// A configuration that refers to a ConfigMap too.
async fn with_authority(ground: &Ground) -> Result<(), Error> {
    use k8s_openapi::api::core::v1::ConfigMap;
    let api: Api<ConfigMap> = Api::namespaced(ground.client.clone(), CONFIG);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "vault-ca" }, "data": { "ca-bundle.crt": "pem" } });
    api.patch("vault-ca", &PatchParams::apply("test"), &Patch::Apply(&map)).await?;
    let mut encryption = kms("https://vault.example.com:8200");
    encryption["kms"]["vault"]["tls"] = json!({ "caBundle": { "name": "vault-ca" } });
    ground.configure(encryption).await
}

/// Issue 6: RBAC allows nothing else.
pub async fn the_controller_may_do_what_it_does_and_nothing_else(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, KINDS[0].0).await?;
    ground.nodes(&["a"]).await?;
    with_authority(&ground).await?;
    let _plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    let name = "system:serviceaccount:outrigger-kms:outrigger-kms-preflight";
    let user = ground.plane.user(name, None)?;
    for (kind, namespace) in KINDS {
        ground.turn_to(kind, namespace).await?;
    }
    let file = format!("{}/../../deploy/kms/{FILE}", env!("CARGO_MANIFEST_DIR"));
    let output = ground.plane.kubectl()?.args(["apply", "--server-side", "-f", &file]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (kind, namespace) in KINDS {
        (ground.kind, ground.operand) = (kind, namespace);
        let controller =
            ground.controller_as(kind, &user, |program: Program| program.flag("resync", "1h"))?;
        let hash = ground.ask().await?;
        ground.pod_named("kms-preflight-a", None).await?;
        let output = ground.check_in("kms-preflight-a", &ground.folder, &hash, &[1]).await?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ground.gone().await?;
        assert_eq!(ground.result().await?["status"], "Succeeded");
        controller.stop(SOON)?;
    }
    let files = access::files();
    let documents: Vec<Value> =
        files.into_iter().filter(|(name, _)| *name == FILE).flat_map(|(_, all)| all).collect();
    // Nobody can give rights that he has not; these are the checker's.
    let given: Vec<String> = KINDS
        .iter()
        .flat_map(|(_, namespace)| {
            ["get pods.", "update pods/status."].map(|right| format!("{right} in {namespace}"))
        })
        .collect();
    wait::until("the use of every other right", SOON, || async {
        let requests =
            ground.plane.audit().requests(|one| one.user == name).map_err(|error| error.to_string())?;
        let unused = rights::unused(&documents, &requests);
        if unused == given { Ok(()) } else { Err(format!("these are not used: {unused:#?}")) }
    })
    .await?;
    let refused = ground.plane.audit().requests(|one| one.user == name && one.code == 403)?;
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}
