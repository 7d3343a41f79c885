//! Threat (b): a ServiceAccount with few rights.

use api::names::object::sidecar_audience;
use api::sidecar_wire::{TASK_KIND_HEADER, path};
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::demo::platform::{NAMESPACE, PUBLISHER, VALIDATOR};
use testbed::{Context, ControlPlane, Error, TestResult};

use super::{Attempt, token};
use crate::fixture;

const VISITOR: &str = "visitor";
const CHECKER: &str = "checker";

/// Creates an account without rights, and one that may submit a single kind of task to the validator.
fn create_accounts(plane: &ControlPlane) -> Result<(), Error> {
    let account = |name: &str| json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": NAMESPACE } });
    let group = "rbac.authorization.k8s.io";
    let named = json!({ "name": CHECKER, "namespace": NAMESPACE });
    let rule = json!({ "apiGroups": ["sei.io"], "resources": ["seinodetasks/config-validate"], "resourceNames": [VALIDATOR], "verbs": ["create"] });
    let items: [Value; 4] = [
        account(VISITOR),
        account(CHECKER),
        json!({ "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": named, "rules": [rule] }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": named,
            "roleRef": { "apiGroup": group, "kind": "Role", "name": CHECKER },
            "subjects": [{ "kind": "ServiceAccount", "name": CHECKER, "namespace": NAMESPACE }],
        }),
    ];
    kubectl::apply(plane, &json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// A token opens only the node that it was requested for, and there only what RBAC grants.
pub async fn account_without_rights_is_refused(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    let plane = nodes.plane();
    create_accounts(plane)?;
    let (validator, publisher) = (nodes.address(VALIDATOR).await?, nodes.address(PUBLISHER).await?);
    let task = json!({ "type": "config-validate" });
    let own = sidecar_audience(VALIDATOR, NAMESPACE);
    let visitor = bearer(&token(plane, VISITOR, Some(&own))?);
    for target in [path::STATUS, path::TASKS, path::CHAIN] {
        Attempt::get(target).with(&[&visitor]).expect(validator, &[403]).await?;
    }
    Attempt::post(path::TASKS, &task).with(&[&visitor]).expect(validator, &[403]).await?;
    // The uploader has every right on the publisher, with a token for it.
    let other = sidecar_audience(PUBLISHER, NAMESPACE);
    for audience in [None, Some(own.as_str()), Some("sidecars.sei.io")] {
        let uploader = bearer(&token(plane, "uploader", audience)?);
        Attempt::get(path::TASKS).with(&[&uploader]).expect(publisher, &[401]).await?;
    }
    let uploader = bearer(&token(plane, "uploader", Some(&other))?);
    let allowed = Attempt::get(path::TASKS).with(&[&uploader]).send(publisher).await?;
    assert_eq!(allowed.0, 200, "the control attempt with the right audience: {}", allowed.1);
    Attempt::get(path::TASKS).with(&[&uploader]).expect(validator, &[401]).await?;
    Ok(())
}

/// The right to submit one kind of task is not the right to submit another one under its name.
pub async fn right_to_one_task_kind_is_no_right_to_others(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    create_accounts(nodes.plane())?;
    let host = nodes.address(VALIDATOR).await?;
    let audience = sidecar_audience(VALIDATOR, NAMESPACE);
    let checker = bearer(&token(nodes.plane(), CHECKER, Some(&audience))?);
    let kind = |name: &str| format!("{TASK_KIND_HEADER}: {name}");
    let (validate, reset) = (kind("config-validate"), kind("reset-data"));
    let task = json!({ "type": "config-validate" });
    let (code, body) = Attempt::post(path::TASKS, &task).with(&[&checker, &validate]).send(host).await?;
    assert_eq!(code, 201, "the control attempt with the granted kind: {body}");
    let forbidden = json!({ "type": "reset-data" });
    Attempt::post(path::TASKS, &forbidden).with(&[&checker, &validate]).expect(host, &[400]).await?;
    Attempt::post(path::TASKS, &forbidden).with(&[&checker, &reset]).expect(host, &[403]).await?;
    Attempt::post(path::TASKS, &task).with(&[&checker]).expect(host, &[403]).await?;
    Attempt::post(path::TASKS, &forbidden).with(&[&checker, &validate, &reset]).expect(host, &[400]).await?;
    let hop = format!("Connection: {TASK_KIND_HEADER}");
    Attempt::post(path::TASKS, &forbidden).with(&[&checker, &validate, &hop]).expect(host, &[400]).await?;
    Attempt::get(path::TASKS).with(&[&checker, &validate]).expect(host, &[400, 403]).await?;
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    Ok(())
}
