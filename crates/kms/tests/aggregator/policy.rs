//! The policy that is shipped in `deploy/kms`: a reporter speaks for its own node only.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::ground::{
    AUTHENTICATION, Form, Ground, KUBE, Kind, OPENSHIFT, OURS, SOON, kubectl, reporter_manager, ship, sick,
    well,
};

/// One report of a node, by somebody.
async fn report(who: &Client, kind: Kind, form: Form, node: &str) -> kube::Result<DynamicObject> {
    let params = PatchParams::apply(&reporter_manager(node)).force();
    kind.api(who)
        .patch_status("cluster", &params, &Patch::Apply(kind.report("cluster", form, node, &[sick("1")])))
        .await
}

/// Waits until a refusal says this. The API server takes a policy up a moment after it is there.
async fn refused<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = kube::Result<T>>,
{
    wait::until(format!("a refusal: {what}"), SOON, || {
        let attempt = attempt();
        async move {
            match attempt.await {
                Ok(_) => Err("it was allowed".to_owned()),
                Err(error) if error.to_string().contains(what) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        }
    })
    .await
}

/// A pod of a reporter on a node, and a client with the token that is bound to it.
async fn bound(ground: &Ground, node: &str) -> Result<Client, Error> {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "kms-health-reporter", "namespace": "kube-system" } });
    let machine = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("reporter-{node}"), "namespace": "kube-system" },
        "spec": { "nodeName": node, "serviceAccountName": "kms-health-reporter", "containers": [{ "name": "reporter", "image": "images.example/outrigger" }] },
    });
    let file = ground.site.dir().join(format!("{node}.json"));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [account, machine, pod] });
    std::fs::write(&file, list.to_string())
        .map_err(|source| Error::Io { what: "writing a manifest".into(), source })?;
    kubectl(&ground.plane, &["apply", "--server-side", "-f", &file.display().to_string()])?;
    let uid = kubectl(
        &ground.plane,
        &["get", "pod", "-n", "kube-system", &format!("reporter-{node}"), "-o", "jsonpath={.metadata.uid}"],
    )?;
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.client.clone(), "kube-system");
    let request: TokenRequest = serde_json::from_value(json!({ "spec": {
        "audiences": [], "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": format!("reporter-{node}"), "uid": uid },
    } }))?;
    let answer: TokenRequest =
        accounts.create_token_request("kms-health-reporter", &PostParams::default(), &request).await?;
    let token = answer.status.map(|status| status.token).unwrap_or_default();
    with_token(ground, &token).await
}

async fn with_token(ground: &Ground, token: &str) -> Result<Client, Error> {
    let mut config = ground.plane.admin().config().await?;
    config.auth_info = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
    Ok(Client::try_from(config)?)
}

pub async fn a_reporter_changes_its_own_entry_and_nothing_else(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ship(&ground.plane, &["reporter-rbac.yaml", "reporter-policy.yaml"])?;
    let certificate =
        ground.plane.user("kms-health-reporter:a", Some("kms-health-reporters"))?.client("reporter").await?;
    let token = bound(&ground, "a").await?;
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION, OURS] {
        let spec = if kind == OURS { json!({}) } else { json!({ "managementState": "Managed" }) };
        ground.object(kind, "cluster", spec).await?;
        let forms: &[Form] = if kind == OURS { &[Form::Typed] } else { &[Form::Condition, Form::Typed] };
        for form in forms {
            ground.report(kind, "cluster", *form, "b", &[well("2"), well("1")]).await?;
            for who in [&certificate, &token] {
                let said = |error| format!("{} {form:?}: {error}", kind.kind);
                report(who, kind, *form, "a").await.map_err(said)?;
                report(who, kind, *form, "a").await.map_err(said)?;
                let part = if *form == Form::Typed {
                    "the reporter of node a may change only reports of that node, and changes those of: b"
                } else {
                    "the reporter of node a may change only the condition KMSHealthReporter_a, and changes: KMSHealthReporter_b"
                };
                refused(part, || report(who, kind, *form, "b"))
                    .await
                    .map_err(|error| format!("{} {form:?}: {error}", kind.kind))?;
            }
        }
        // What is not a report.
        for who in [&certificate, &token] {
            let merge = |status: Value| async move {
                let patch = Patch::Merge(json!({ "status": status }));
                kind.api(who).patch_status("cluster", &PatchParams::default(), &patch).await
            };
            refused("may change only the condition KMSHealthReporter_a, and changes: ", || {
                let time = "2026-01-01T00:00:00Z";
                merge(json!({ "conditions": [{ "type": "KMSPluginsDegraded", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": time }] }))
            })
            .await?;
            refused("may change nothing of the status but its reports", || {
                merge(json!({ "observedGeneration": 7 }))
            })
            .await?;
            if kind != OURS {
                let preflight = json!({ "preflight": { "observedConfigHash": "cuZm_g==" } });
                let inside = if kind == AUTHENTICATION {
                    json!({ "oauthAPIServer": { "encryptionStatus": preflight } })
                } else {
                    json!({ "encryptionStatus": preflight })
                };
                refused("may change nothing of encryptionStatus but its reports", || merge(inside.clone()))
                    .await?;
            }
            if kind == AUTHENTICATION {
                refused("may change nothing of oauthAPIServer but its reports", || {
                    merge(json!({ "oauthAPIServer": { "latestAvailableRevision": 9 } }))
                })
                .await?;
            }
            // Rights: nothing but the status of this one object.
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
            refused("forbidden", || async {
                kind.api(who).patch("cluster", &PatchParams::default(), &patch).await
            })
            .await?;
            refused("forbidden", || async { kind.api(who).list(&kube::api::ListParams::default()).await })
                .await?;
            let object = kind.api(who).get("cluster").await?;
            assert_eq!(object.name_any(), "cluster");
        }
    }
    // A token that is bound to no pod names no node.
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.client.clone(), "kube-system");
    let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
    let answer =
        accounts.create_token_request("kms-health-reporter", &PostParams::default(), &request).await?;
    let nobody = with_token(&ground, &answer.status.map(|status| status.token).unwrap_or_default()).await?;
    refused("names no node: use a token that is bound to its pod", || {
        report(&nobody, KUBE, Form::Typed, "a")
    })
    .await?;
    // Everybody else writes as before.
    ground.report(KUBE, "cluster", Form::Typed, "a", &[well("1")]).await?;
    // Many reports are within what a policy may cost.
    let many: Vec<Value> = (0..480)
        .map(|n| json!({ "nodeName": format!("node-{n:03}"), "keyID": "1", "status": "Error", "lastCheckedTime": "2026-01-01T00:00:00Z", "detail": "x".repeat(1000) }))
        .collect();
    ground.operator_writes(OURS, "cluster", json!({ "healthReports": many })).await?;
    report(&certificate, OURS, Form::Typed, "a").await?;
    refused("a reporter may change only the reports of its own node", || {
        report(&certificate, OURS, Form::Typed, "node-001")
    })
    .await
    .or_else(|error| {
        if error.to_string().contains("changes those of: node-001") { Ok(()) } else { Err(error) }
    })?;
    Ok(())
}
