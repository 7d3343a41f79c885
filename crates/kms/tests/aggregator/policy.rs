//! The ValidatingAdmissionPolicy in `deploy/kms`: a reporter may change only entries of its own node.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{
    AUTHENTICATION, Fixture, Form, KMS_HEALTH, KUBE, Kind, OPENSHIFT, TIMEOUT, failing, healthy,
    install_manifests, kubectl, reporter_manager,
};

/// Publishes a report of a node with some client.
async fn report(client: &Client, kind: Kind, form: Form, node: &str) -> kube::Result<DynamicObject> {
    let params = PatchParams::apply(&reporter_manager(node)).force();
    kind.api(client)
        .patch_status(
            "cluster",
            &params,
            &Patch::Apply(kind.report_body("cluster", form, node, &[failing("1")])),
        )
        .await
}

/// Waits until a request is rejected with a message. The API server enforces a new policy only after a moment.
async fn until_rejected<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = kube::Result<T>>,
{
    wait::until(format!("a rejection: {what}"), TIMEOUT, || {
        let attempt = attempt();
        async move {
            match attempt.await {
                Ok(_) => Err("allowed".to_owned()),
                Err(error) if error.to_string().contains(what) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        }
    })
    .await
}

/// Creates a reporter pod on a node, and returns a client with a token bound to the pod.
async fn client_with_bound_token(fixture: &Fixture, node: &str) -> Result<Client, Error> {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "kms-health-reporter", "namespace": "kube-system" } });
    let node_object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("reporter-{node}"), "namespace": "kube-system" },
        "spec": { "nodeName": node, "serviceAccountName": "kms-health-reporter", "containers": [{ "name": "reporter", "image": "images.example/outrigger" }] },
    });
    let file = fixture.site.dir().join(format!("{node}.json"));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [account, node_object, pod] });
    std::fs::write(&file, list.to_string())
        .map_err(|source| Error::Io { what: "writing a manifest".into(), source })?;
    kubectl(&fixture.plane, &["apply", "--server-side", "-f", &file.display().to_string()])?;
    let uid = kubectl(
        &fixture.plane,
        &["get", "pod", "-n", "kube-system", &format!("reporter-{node}"), "-o", "jsonpath={.metadata.uid}"],
    )?;
    let accounts: Api<ServiceAccount> = Api::namespaced(fixture.client.clone(), "kube-system");
    let request: TokenRequest = serde_json::from_value(json!({ "spec": {
        "audiences": [], "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": format!("reporter-{node}"), "uid": uid },
    } }))?;
    let answer: TokenRequest =
        accounts.create_token_request("kms-health-reporter", &PostParams::default(), &request).await?;
    let token = answer.status.map(|status| status.token).unwrap_or_default();
    client_with_token(fixture, &token).await
}

async fn client_with_token(fixture: &Fixture, token: &str) -> Result<Client, Error> {
    let mut config = fixture.plane.admin().config().await?;
    config.auth_info = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
    Ok(Client::try_from(config)?)
}

pub async fn reporter_may_change_only_its_own_entries(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    install_manifests(&fixture.plane, &["reporter-rbac.yaml", "reporter-policy.yaml"])?;
    let certificate =
        fixture.plane.user("kms-health-reporter:a", Some("kms-health-reporters"))?.client("reporter").await?;
    let token = client_with_bound_token(&fixture, "a").await?;
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION, KMS_HEALTH] {
        let spec = if kind == KMS_HEALTH { json!({}) } else { json!({ "managementState": "Managed" }) };
        fixture.create(kind, "cluster", spec).await?;
        let forms: &[Form] =
            if kind == KMS_HEALTH { &[Form::Typed] } else { &[Form::Condition, Form::Typed] };
        for form in forms {
            fixture.report(kind, "cluster", *form, "b", &[healthy("2"), healthy("1")]).await?;
            for client in [&certificate, &token] {
                let context = |error| format!("{} {form:?}: {error}", kind.kind);
                report(client, kind, *form, "a").await.map_err(context)?;
                report(client, kind, *form, "a").await.map_err(context)?;
                let part = if *form == Form::Typed {
                    "the reporter of node a may change only reports of that node, and changes those of: b"
                } else {
                    "the reporter of node a may change only the condition KMSHealthReporter_a, and changes: KMSHealthReporter_b"
                };
                until_rejected(part, || report(client, kind, *form, "b"))
                    .await
                    .map_err(|error| format!("{} {form:?}: {error}", kind.kind))?;
            }
        }
        // Fields that are not reports.
        for client in [&certificate, &token] {
            let merge = |status: Value| async move {
                let patch = Patch::Merge(json!({ "status": status }));
                kind.api(client).patch_status("cluster", &PatchParams::default(), &patch).await
            };
            until_rejected("may change only the condition KMSHealthReporter_a, and changes: ", || {
                let time = "2026-01-01T00:00:00Z";
                merge(json!({ "conditions": [{ "type": "KMSPluginsDegraded", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": time }] }))
            })
            .await?;
            until_rejected("may change nothing in status but its reports", || {
                merge(json!({ "observedGeneration": 7 }))
            })
            .await?;
            if kind != KMS_HEALTH {
                let preflight = json!({ "preflight": { "observedConfigHash": "cuZm_g==" } });
                let inside = if kind == AUTHENTICATION {
                    json!({ "oauthAPIServer": { "encryptionStatus": preflight } })
                } else {
                    json!({ "encryptionStatus": preflight })
                };
                until_rejected("may change nothing in encryptionStatus but its reports", || {
                    merge(inside.clone())
                })
                .await?;
            }
            if kind == AUTHENTICATION {
                until_rejected("may change nothing in oauthAPIServer but its reports", || {
                    merge(json!({ "oauthAPIServer": { "latestAvailableRevision": 9 } }))
                })
                .await?;
            }
            // RBAC allows only the status of this one object.
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
            until_rejected("forbidden", || async {
                kind.api(client).patch("cluster", &PatchParams::default(), &patch).await
            })
            .await?;
            until_rejected("forbidden", || async {
                kind.api(client).list(&kube::api::ListParams::default()).await
            })
            .await?;
            let object = kind.api(client).get("cluster").await?;
            assert_eq!(object.name_any(), "cluster");
        }
    }
    // An unbound token names no node.
    let accounts: Api<ServiceAccount> = Api::namespaced(fixture.client.clone(), "kube-system");
    let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
    let answer =
        accounts.create_token_request("kms-health-reporter", &PostParams::default(), &request).await?;
    let unbound =
        client_with_token(&fixture, &answer.status.map(|status| status.token).unwrap_or_default()).await?;
    until_rejected("names no node: use a token bound to its pod", || {
        report(&unbound, KUBE, Form::Typed, "a")
    })
    .await?;
    // Other users are not affected.
    fixture.report(KUBE, "cluster", Form::Typed, "a", &[healthy("1")]).await?;
    // The policy's cost limit allows many reports.
    let many: Vec<Value> = (0..480)
        .map(|n| json!({ "nodeName": format!("node-{n:03}"), "keyID": "1", "status": "Error", "lastCheckedTime": "2026-01-01T00:00:00Z", "detail": "x".repeat(1000) }))
        .collect();
    fixture.patch_status(KMS_HEALTH, "cluster", json!({ "healthReports": many })).await?;
    report(&certificate, KMS_HEALTH, Form::Typed, "a").await?;
    until_rejected("a reporter may change only the reports of its own node", || {
        report(&certificate, KMS_HEALTH, Form::Typed, "node-001")
    })
    .await
    .or_else(|error| {
        if error.to_string().contains("changes those of: node-001") { Ok(()) } else { Err(error) }
    })?;
    Ok(())
}
