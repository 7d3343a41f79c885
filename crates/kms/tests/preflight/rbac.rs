//! RBAC in `deploy/kms` is sufficient and minimal: every permission is used.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::fixture::{CONFIG_NAMESPACE, Error, Fixture, TIMEOUT, vault_config};
use crate::permissions::until_all_used;

const FILE: &str = "preflight-rbac.yaml";

const KINDS: [(&str, &str); 3] = [
    ("KubeAPIServer", "openshift-kube-apiserver"),
    ("OpenShiftAPIServer", "openshift-apiserver"),
    ("Authentication", "openshift-oauth-apiserver"),
];

/// Configures a CA bundle, so that the configuration refers to a ConfigMap, too.
async fn configure_ca_bundle(fixture: &Fixture) -> Result<(), Error> {
    use k8s_openapi::api::core::v1::ConfigMap;
    let api: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), CONFIG_NAMESPACE);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "vault-ca" }, "data": { "ca-bundle.crt": "pem" } });
    api.patch("vault-ca", &PatchParams::apply("test"), &Patch::Apply(&map)).await?;
    let mut encryption = vault_config("https://vault.example.com:8200");
    encryption["kms"]["vault"]["tls"] = json!({ "caBundle": { "name": "vault-ca" } });
    fixture.configure(encryption).await
}

pub async fn controller_rbac_is_sufficient_and_minimal(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, KINDS[0].0).await?;
    fixture.create_nodes(&["a"]).await?;
    configure_ca_bundle(&fixture).await?;
    let _plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    let name = "system:serviceaccount:outrigger-kms:outrigger-kms-preflight";
    let user = fixture.plane.user(name, None)?;
    for (kind, namespace) in KINDS {
        fixture.switch_to(kind, namespace).await?;
    }
    let file = format!("{}/../../deploy/kms/{FILE}", env!("CARGO_MANIFEST_DIR"));
    let output = fixture.plane.kubectl()?.args(["apply", "--server-side", "-f", &file]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (kind, namespace) in KINDS {
        (fixture.kind, fixture.operand) = (kind, namespace);
        let controller =
            fixture.controller_as(kind, &user, |program: Program| program.flag("resync", "1h"))?;
        let hash = fixture.request_check().await?;
        fixture.wait_for_pod_named("kms-preflight-a", None).await?;
        let output = fixture.run_checker_in("kms-preflight-a", &fixture.sockets, &hash, &[1]).await?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fixture.until_cleaned_up().await?;
        assert_eq!(fixture.result().await?["status"], "Succeeded");
        controller.stop(TIMEOUT)?;
    }
    // The controller may grant only permissions it has; it does not use these of the checker itself.
    let granted: Vec<String> = KINDS
        .iter()
        .flat_map(|(_, namespace)| {
            ["get pods.", "update pods/status."].map(|permission| format!("{permission} in {namespace}"))
        })
        .collect();
    until_all_used(&fixture.plane, &[FILE], name, &granted, TIMEOUT).await?;
    Ok(())
}
