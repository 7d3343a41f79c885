//! cert-manager on the API server.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use testbed::cluster::cert_manager::{CertManager, is_ready};
use testbed::{Context, ControlPlane, TestResult};
use x509_parser::prelude::{FromDer, X509Certificate};

testbed::suite![ca_issuer_issues_a_certificate];

async fn apply(
    plane: &ControlPlane,
    ns: &str,
    object: Value,
) -> Result<Api<DynamicObject>, Box<dyn std::error::Error>> {
    let kind = object["kind"].as_str().ok_or("no kind")?;
    let name = object["metadata"]["name"].as_str().ok_or("no name")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(plane.client().await?, ns, &resource);
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(&object)).await?;
    Ok(api)
}

async fn wait_for_ready(api: &Api<DynamicObject>, name: &str) -> testbed::Result<()> {
    testbed::harness::wait::until(format!("{name} readiness"), Duration::from_secs(30), || async {
        match api.get(name).await {
            Ok(object) if is_ready(&object) => Ok(()),
            Ok(object) => Err(object.data["status"].to_string()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

async fn ca_issuer_issues_a_certificate(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let cert_manager = CertManager::start(plane).await?;
    let ns = cx.namespace().await?;
    let manifest = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });

    apply(plane, &ns, manifest("Issuer", "self-signed", json!({ "selfSigned": {} }))).await?;
    let ca = json!({
        "isCA": true, "commonName": "test CA", "secretName": "ca", "issuerRef": { "name": "self-signed" },
    });
    let certificates = apply(plane, &ns, manifest("Certificate", "ca", ca)).await?;
    wait_for_ready(&certificates, "ca").await?;
    apply(plane, &ns, manifest("Issuer", "ca", json!({ "ca": { "secretName": "ca" } }))).await?;

    let started = Instant::now();
    let leaf = json!({ "secretName": "leaf", "dnsNames": ["node-0.example"], "issuerRef": { "name": "ca" } });
    apply(plane, &ns, manifest("Certificate", "leaf", leaf)).await?;
    wait_for_ready(&certificates, "leaf").await?;
    println!("cert-manager: CA-issued certificate ready after {:.1} s", started.elapsed().as_secs_f64());

    let secret = Api::<Secret>::namespaced(plane.client().await?, &ns).get("leaf").await?;
    let data = secret.data.ok_or("secret without data")?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&data["tls.crt"].0)?;
    let (_, certificate) = X509Certificate::from_der(&pem.contents)?;
    let (_, ca) = x509_parser::pem::parse_x509_pem(&data["ca.crt"].0)?;
    let (_, ca) = X509Certificate::from_der(&ca.contents)?;
    assert_eq!(ca.subject().to_string(), "CN=test CA");
    certificate.verify_signature(Some(ca.public_key()))?;
    let names = certificate.subject_alternative_name()?.ok_or("no names")?.value.general_names.clone();
    assert_eq!(format!("{names:?}"), "[DNSName(\"node-0.example\")]");
    assert!(!data["tls.key"].0.is_empty());
    cert_manager.check_alive()?;
    Ok(())
}
