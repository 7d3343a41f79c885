//! The Pod Security Standard that `examples/nodes` enforces.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::{Context, TestResult};

use crate::fixture::Fixture;
use crate::fixture::{IMAGE, OTHER_IMAGE};

/// The namespace for nodes of the README.
const NODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/nodes");

/// Name of that namespace.
const NAMESPACE: &str = "sei";

/// Pods of every node kind, with everything that adds a container or a volume, and bootstrap pods.
pub async fn node_pods_satisfy_the_restricted_standard(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    kubectl::run(fixture.plane, &["apply", "--server-side", "-k", NODES], None)?;
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    let labels = namespaces.get(NAMESPACE).await?.metadata.labels.unwrap_or_default();
    let standard: BTreeMap<_, _> =
        labels.into_iter().filter(|(name, _)| name.starts_with("pod-security.kubernetes.io/")).collect();
    assert_eq!(standard["pod-security.kubernetes.io/enforce"], "restricted");
    let patch = Patch::Merge(json!({ "metadata": { "labels": standard } }));
    namespaces.patch(&fixture.ns, &PatchParams::default(), &patch).await?;

    let privileged: Pod = serde_json::from_value(json!({
        "metadata": { "name": "privileged" },
        "spec": {
            "serviceAccountName": "seid-node",
            "containers": [{ "name": "one", "image": IMAGE }],
        },
    }))?;
    let pods = fixture.api::<Pod>();
    let rejected = pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &privileged).await;
    let rejected = rejected.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(rejected.contains("violates PodSecurity \"restricted:latest\""), "{rejected}");

    let _operator = fixture.start_operator()?;
    let kinds: [(&str, Value); 4] = [
        ("full", json!({ "fullNode": {} })),
        ("archive", json!({ "archive": {} })),
        ("validator", json!({ "validator": {} })),
        (
            "bootstrap",
            json!({ "fullNode": { "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": OTHER_IMAGE } } }),
        ),
    ];
    for (name, spec) in &kinds {
        let create = fixture.create(name, |node| {
            node["spec"] = json!({ "chainId": "arctic-1", "image": IMAGE });
            for (field, value) in spec.as_object().expect("an object") {
                node["spec"][field] = value.clone();
            }
        });
        create.await?;
    }
    for (name, _) in &kinds {
        // A rejected pod or Job would never become ready.
        fixture.wait_ready(name, "its pods are admitted").await?;
    }
    let admitted = pods.list(&ListParams::default()).await?.items;
    assert!(admitted.len() >= kinds.len(), "{} pods", admitted.len());
    Ok(())
}
