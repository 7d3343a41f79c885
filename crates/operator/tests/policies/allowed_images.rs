//! The ValidatingAdmissionPolicy in `deploy/policies/allowed-images`.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT};

/// The example of the documentation.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/allowed-images");

/// Name of the policy and its binding.
const POLICY: &str = "seinode-allowed-images.outrigger.dev";

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Installs the example for one namespace, and waits until it is enforced there.
async fn install(plane: &ControlPlane, ns: &str, prefixes: &str) -> Result<(), Error> {
    kubectl::run(plane, &["apply", "--server-side", "-k", EXAMPLE], None)?;
    let expression = json!([{ "op": "replace", "path": "/spec/variables/0/expression", "value": prefixes }]);
    let patch = |kind, patch: &Value| {
        kubectl::run(plane, &["patch", kind, POLICY, "--type=json", "-p", &patch.to_string()], None)
    };
    patch("validatingadmissionpolicy", &expression)?;
    let only = json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": ns } } });
    let binding = json!([{ "op": "add", "path": "/spec/matchResources", "value": only }]);
    patch("validatingadmissionpolicybinding", &binding)?;
    let client = plane.client().await?;
    wait::until("the policy to be enforced", TIMEOUT, || async {
        match dry_run(&client, ns, &node("evil.example/sei:v1", |_| {})).await {
            Err(error) if error.contains(&prefixes.replace('\'', "")) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

fn node(image: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": "full" },
        "spec": { "chainId": "arctic-1", "image": image, "fullNode": {} },
    });
    change(&mut node);
    node
}

fn fleet(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = node("images.example/sei:v1", |_| {})["spec"].take();
    change(&mut spec);
    json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNodeDeployment", "metadata": { "name": "fleet" },
        "spec": { "replicas": 1, "updateStrategy": { "type": "InPlace" }, "template": { "spec": spec } },
    })
}

fn api(client: &Client, ns: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("sei.io", "v1alpha1", kind));
    Api::namespaced_with(client.clone(), ns, &resource)
}

/// Creates an object without storing it. The error is the message of the API server.
async fn dry_run(client: &Client, ns: &str, object: &Value) -> Result<(), String> {
    let object: DynamicObject = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api(client, ns, &kind).create(&params, &object).await.map(drop).map_err(message)
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    }
}

/// Creates a node before the policy is installed.
pub async fn allow_list_of_images_is_enforced(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let (plane, ns, client) = (fixture.plane, &fixture.ns, &fixture.client);
    let older = node("older.example/sei:v1", |node| node["metadata"]["name"] = json!("older"));
    api(client, ns, "SeiNode").create(&PostParams::default(), &serde_json::from_value(older)?).await?;
    let prefixes = "['images.example/sei', 'registry.example:5000/', 'docker.io/sei', 'ghcr.example', \
        'pinned.example/seid:v6', '[2001:db8::1]:5000/sei']";
    install(plane, ns, prefixes).await?;
    images_outside_of_the_allow_list_are_rejected(client, ns).await?;
    every_field_is_checked(client, ns).await?;
    forbidden_image_does_not_block_other_edits(client, ns).await?;
    Ok(())
}

async fn images_outside_of_the_allow_list_are_rejected(client: &Client, ns: &str) -> TestResult {
    let digest = |name: &str| format!("{name}@{DIGEST}");
    for image in [
        "images.example/sei".to_owned(),
        "images.example/sei:v1".into(),
        "images.example/sei/seid:v6.3.0-rc1".into(),
        digest("images.example/sei"),
        digest("images.example/sei/seid:v1"),
        "registry.example:5000/any/thing".into(),
        "docker.io/sei/seid:v1".into(),
        "ghcr.example/any".into(),
        "pinned.example/seid:v6".into(),
        digest("pinned.example/seid:v6"),
        "[2001:db8::1]:5000/sei:v1".into(),
    ] {
        dry_run(client, ns, &node(&image, |_| {})).await.map_err(|error| format!("{image}: {error}"))?;
    }
    for image in [
        // Longer names.
        "images.example/seievil:v1".to_owned(),
        "images.example/sei-evil".into(),
        "images.example/sei.evil/seid".into(),
        "images.example.evil.example/sei:v1".into(),
        "ghcr.example.evil.example/any".into(),
        "ghcr.example:5000/any".into(),
        "registry.example:50001/any".into(),
        "registry.example/any".into(),
        "pinned.example/seid:v6.3.0".into(),
        "pinned.example/seid".into(),
        digest("pinned.example/seid"),
        // Shorter names, and prefixes in the middle.
        "images.example/se".into(),
        "evil.example/images.example/sei:v1".into(),
        "evil.example/sei".into(),
        // Upper case.
        "Images.Example/sei:v1".into(),
        "images.example/SEI:v1".into(),
        // The registry depends on the container runtime.
        "sei:v1".into(),
        "sei/seid:v1".into(),
        "library/sei".into(),
        "index.docker.io/sei/seid".into(),
        // Invalid references.
        "images.example/sei/../evil:v1".into(),
        "images.example/sei//evil".into(),
        "images.example/sei@evil.example/seid".into(),
        "images.example/sei:v1/evil".into(),
        "images.example/sei@sha256:abc".into(),
        "images.example/sei:v1 evil.example/seid".into(),
        "images.example/sei:v1\nevil.example/seid".into(),
        "https://images.example/sei".into(),
    ] {
        let rejected = dry_run(client, ns, &node(&image, |_| {})).await.err();
        let rejected = rejected.ok_or_else(|| format!("{image} is allowed"))?;
        assert!(rejected.contains(POLICY), "{image}: {rejected}");
        if !image.contains('\n') {
            let expected = format!(
                "spec.image \"{image}\" is not allowed: use an image with its registry that starts with one of [images.example/sei, "
            );
            assert!(rejected.contains(&expected), "{rejected}");
        }
    }
    Ok(())
}

/// Each field that holds an image, of both kinds.
async fn every_field_is_checked(client: &Client, ns: &str) -> Result<(), Error> {
    const EVIL: &str = "evil.example/sei:v1";
    type Change = fn(&mut Value, &str);
    let bootstrap: Change = |spec, image| {
        spec["fullNode"] = json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": image } });
    };
    let validator: Change = |spec, image| {
        spec.as_object_mut().expect("an object").remove("fullNode");
        spec["validator"] = json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": image } });
    };
    let replayer: Change = |spec, image| {
        spec.as_object_mut().expect("an object").remove("fullNode");
        spec["peers"] = json!([{ "label": { "selector": { "sei.io/chain": "arctic-1" } } }]);
        spec["replayer"] = json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": image } });
    };
    let fields: [(&str, Change); 5] = [
        ("image", |spec, image| spec["image"] = json!(image)),
        ("sidecar.image", |spec, image| spec["sidecar"] = json!({ "image": image })),
        ("fullNode.snapshot.bootstrapImage", bootstrap),
        ("validator.snapshot.bootstrapImage", validator),
        ("replayer.snapshot.bootstrapImage", replayer),
    ];
    for (field, change) in fields {
        for (path, object) in [
            (
                "spec",
                &(|image: &str| node("images.example/sei:v1", |node| change(&mut node["spec"], image)))
                    as &dyn Fn(&str) -> Value,
            ),
            ("spec.template.spec", &|image: &str| fleet(|spec| change(spec, image))),
        ] {
            let allowed = dry_run(client, ns, &object("images.example/sei:v2")).await;
            allowed.map_err(|error| Error::Other(format!("{path}.{field}: {error}")))?;
            let rejected = dry_run(client, ns, &object(EVIL)).await.err().unwrap_or_default();
            assert!(
                rejected.contains(&format!("{path}.{field} \"{EVIL}\" is not allowed")),
                "{path}.{field}: {rejected}"
            );
        }
    }
    // All fields are reported together.
    let both = node(EVIL, |node| node["spec"]["sidecar"] = json!({ "image": EVIL }));
    let rejected = dry_run(client, ns, &both).await.err().unwrap_or_default();
    let expected = format!("spec.image \"{EVIL}\", spec.sidecar.image \"{EVIL}\" is not allowed");
    assert!(rejected.contains(&expected), "{rejected}");
    Ok(())
}

/// The object is older than the policy.
async fn forbidden_image_does_not_block_other_edits(client: &Client, ns: &str) -> Result<(), Error> {
    let nodes = api(client, ns, "SeiNode");
    let edit = |patch: Value| {
        let nodes = nodes.clone();
        async move {
            let edited = nodes.patch("older", &PatchParams::default(), &Patch::Merge(patch)).await;
            edited.map(drop).map_err(|error| Error::Other(message(error)))
        }
    };
    edit(json!({ "metadata": { "labels": { "a": "b" }, "finalizers": ["example.com/a"] } })).await?;
    edit(json!({ "spec": { "overrides": { "logging.level": "debug" } } })).await?;
    for rejected in [
        json!({ "spec": { "image": "older.example/sei:v2" } }),
        json!({ "spec": { "sidecar": { "image": "older.example/sei:v1" } } }),
    ] {
        let error = edit(rejected.clone()).await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("\" is not allowed"), "{rejected}: {error}");
    }
    edit(json!({ "spec": { "image": "images.example/sei:v2" } })).await?;
    let back = edit(json!({ "spec": { "image": "older.example/sei:v1" } })).await;
    let error = back.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("spec.image \"older.example/sei:v1\" is not allowed"), "{error}");
    edit(json!({ "metadata": { "finalizers": null } })).await?;
    nodes.delete("older", &DeleteParams::default()).await?;
    Ok(())
}
