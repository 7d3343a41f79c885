//! Threat (e): a stolen token.

use api::SeiNode;
use api::names::object::sidecar_audience;
use api::sidecar_wire::path;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testbed::demo::platform::{NAMESPACE, OPERATOR, PUBLISHER, VALIDATOR};
use testbed::{Context, TestResult};

use super::{Attempt, client_with, rejected, token, token_in};
use crate::fixture;

/// The token of a node's proxy is good for reviews only.
pub async fn token_of_a_proxy_opens_nothing_else(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    let stolen = token(nodes.plane(), "seid-node", None)?;
    let client = client_with(nodes.plane(), &stolen).await?;
    let list = ListParams::default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    rejected("list Secrets", secrets.list(&list).await, &[403])?;
    rejected("get a signing key", secrets.get("validator-signing-key").await, &[403])?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    rejected("delete a pod", pods.delete("validator-0", &DeleteParams::default()).await, &[403])?;
    let objects: Api<SeiNode> = Api::namespaced(client.clone(), NAMESPACE);
    rejected("list SeiNodes", objects.list(&list).await, &[403])?;
    let patch = Patch::Merge(json!({ "spec": { "image": "attacker.example/seid:v1" } }));
    rejected("patch a SeiNode", objects.patch(VALIDATOR, &PatchParams::default(), &patch).await, &[403])?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, OPERATOR.0);
    let (params, request) = (PostParams::default(), TokenRequest::default());
    let requested = accounts.create_token_request(OPERATOR.1, &params, &request).await;
    rejected("request a token of the operator", requested, &[403])?;
    let bearer = format!("Authorization: Bearer {stolen}");
    for node in [VALIDATOR, PUBLISHER] {
        Attempt::get(path::TASKS).with(&[&bearer]).expect(nodes.address(node).await?, &[401]).await?;
    }
    Ok(())
}

/// The token that the operator sends to a node is worthless at every other node, and at the API server.
pub async fn token_for_one_node_opens_no_other(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    let (namespace, account) = OPERATOR;
    let (validator, publisher) = (nodes.address(VALIDATOR).await?, nodes.address(PUBLISHER).await?);
    let audience = sidecar_audience(PUBLISHER, NAMESPACE);
    let stolen = token_in(nodes.plane(), namespace, account, Some(&audience))?;
    let bearer = format!("Authorization: Bearer {stolen}");
    let allowed = Attempt::get(path::TASKS).with(&[&bearer]).send(publisher).await?;
    assert_eq!(allowed.0, 200, "the control attempt at its own node: {}", allowed.1);
    Attempt::get(path::TASKS).with(&[&bearer]).expect(validator, &[401]).await?;
    let task = json!({ "type": "mark-not-ready" });
    Attempt::post(path::TASKS, &task).with(&[&bearer]).expect(validator, &[401]).await?;
    let client = client_with(nodes.plane(), &stolen).await?;
    let objects: Api<SeiNode> = Api::namespaced(client.clone(), NAMESPACE);
    rejected("list SeiNodes", objects.list(&ListParams::default()).await, &[401])?;
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    rejected("get a signing key", secrets.get("validator-signing-key").await, &[401])?;
    Ok(())
}

/// A token of the operator for the API server is not accepted by proxies, and cannot list Secrets.
pub async fn token_of_the_operator_is_limited(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    let (namespace, account) = OPERATOR;
    let stolen = token_in(nodes.plane(), namespace, account, None)?;
    let bearer = format!("Authorization: Bearer {stolen}");
    for node in [VALIDATOR, PUBLISHER] {
        Attempt::get(path::TASKS).with(&[&bearer]).expect(nodes.address(node).await?, &[401]).await?;
    }
    let client = client_with(nodes.plane(), &stolen).await?;
    let all: Api<Secret> = Api::all(client.clone());
    rejected("list the Secrets of the cluster", all.list(&ListParams::default()).await, &[403])?;
    let own: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    rejected("list the Secrets of a node namespace", own.list(&ListParams::default()).await, &[403])?;
    let system: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    rejected("get a Secret of another namespace", system.get("any").await, &[403])?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
    let (params, request) = (PostParams::default(), TokenRequest::default());
    let requested = accounts.create_token_request("seid-node", &params, &request).await;
    rejected("request a token of another account", requested, &[403])?;
    Ok(())
}
