//! Immutable fields, edited with every request type and in sequences of edits; and mutable fields.

use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use testbed::{Context, TestResult};

use crate::plane::{Error, call, collection, merge, with_crds};

const TABLE: &str = include_str!("cases/immutable.yaml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    nodes: Vec<Immutable>,
    fleets: Vec<Immutable>,
    mutable: Vec<Mutable>,
}

/// An immutable field.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Immutable {
    name: String,
    /// Not allowed in the template of a fleet.
    #[serde(default)]
    node_only: bool,
    spec: Value,
    field: String,
    #[serde(default)]
    other: Value,
    edits: Vec<Value>,
    rejected: String,
}

/// An object with edits that must be accepted one after the other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutable {
    name: String,
    spec: Value,
    edits: Vec<Value>,
}

/// The request types of an edit. `WithNull` sends removed fields as `null`, the others omit them.
#[derive(Clone, Copy, Debug)]
enum Method {
    MergePatch,
    Update,
    UpdateWithNull,
    Apply,
    ApplyWithNull,
}

/// The methods that differ if nothing is removed.
const SET_METHODS: [Method; 3] = [Method::MergePatch, Method::Update, Method::Apply];

const METHODS: [Method; 5] =
    [Method::MergePatch, Method::Update, Method::UpdateWithNull, Method::Apply, Method::ApplyWithNull];

/// A stored object.
struct Object {
    client: Client,
    manifest: Value,
    path: String,
}

impl Object {
    async fn create(client: &Client, ns: &str, kind: &str, name: &str, spec: &Value) -> Result<Self, Error> {
        let manifest = json!({
            "apiVersion": "sei.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        let path = format!("{}/{name}", collection(&manifest, ns));
        let object = Self { client: client.clone(), manifest, path };
        object.apply(&object.manifest).await?;
        Ok(object)
    }

    async fn apply(&self, manifest: &Value) -> Result<Value, String> {
        call(&self.client, "PATCH", &format!("{}?fieldManager=user&force=true", self.path), manifest).await
    }

    async fn read(&self) -> Result<Value, String> {
        call(&self.client, "GET", &self.path, &Value::Null).await
    }

    /// Edits the spec.
    async fn edit(&self, method: Method, change: &Value) -> Result<Value, String> {
        let change = json!({ "spec": change });
        match method {
            Method::MergePatch => call(&self.client, "PATCH", &self.path, &change).await,
            Method::Update | Method::UpdateWithNull => {
                let mut stored = self.read().await?;
                edit(&mut stored, &change, matches!(method, Method::UpdateWithNull));
                call(&self.client, "PUT", &self.path, &stored).await
            }
            Method::Apply | Method::ApplyWithNull => {
                let mut manifest = self.manifest.clone();
                edit(&mut manifest, &change, matches!(method, Method::ApplyWithNull));
                self.apply(&manifest).await
            }
        }
    }
}

fn edit(target: &mut Value, change: &Value, keep_null: bool) {
    if keep_null { merge_with_null(target, change) } else { merge(target, change) }
}

/// Applies a merge patch that leaves `null` in place of removed fields.
fn merge_with_null(target: &mut Value, patch: &Value) {
    match (target.as_object_mut(), patch.as_object()) {
        (Some(target), Some(patch)) => {
            for (key, value) in patch {
                merge_with_null(target.entry(key).or_insert(Value::Null), value);
            }
        }
        _ => *target = patch.clone(),
    }
}

/// Wraps `value` in objects along a path.
fn at(path: &[&str], value: &Value) -> Value {
    path.iter()
        .rev()
        .fold(value.clone(), |below, key| Value::Object(Map::from_iter([((*key).to_owned(), below)])))
}

/// Returns edits that remove the field or one of its parents.
fn removals(case: &Immutable) -> Vec<Value> {
    let path: Vec<&str> = case.field.split('.').collect();
    (1..=path.len()).map(|depth| at(&path[..depth], &Value::Null)).collect()
}

/// Converts a case of a node to the template of a fleet.
fn as_fleet(node: &Immutable) -> Immutable {
    let in_template = |value: &Value| json!({ "template": { "spec": value } });
    let mut spec = in_template(&node.spec);
    spec["replicas"] = 1.into();
    Immutable {
        name: format!("fleet-{}", node.name),
        spec,
        field: format!("template.spec.{}", node.field),
        edits: node.edits.iter().map(in_template).collect(),
        ..node.clone()
    }
}

/// Tries all edits on an object. Returns the failures, and the number of edits.
async fn try_all_edits(object: &Object, case: &Immutable) -> Result<(Vec<String>, usize), Error> {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    let path: Vec<&str> = case.field.split('.').collect();
    let to_other = at(&path, &case.other);
    for method in METHODS {
        for change in &case.edits {
            tried += 1;
            match object.edit(method, change).await {
                Ok(_) => wrong.push(format!("{}: {method:?} of {change} was accepted", case.name)),
                // Only an apply preserves nulls; they fail schema validation before rules are evaluated.
                Err(error) if !error.contains(&case.rejected) && !matches!(method, Method::ApplyWithNull) => {
                    wrong.push(format!("{}: {method:?} of {change} failed differently: {error}", case.name));
                }
                Err(_) => {}
            }
        }
        for first in removals(case) {
            tried += 1;
            // After a rejected edit, the second one would be a single edit, which is tried above.
            if object.edit(method, &first).await.is_err() || case.other.is_null() {
                continue;
            }
            for second_method in SET_METHODS {
                tried += 1;
                if object.edit(second_method, &to_other).await.is_ok() {
                    wrong.push(format!(
                        "{}: {method:?} of {first}, then {second_method:?} of {to_other} were accepted",
                        case.name
                    ));
                }
            }
        }
    }
    let stored = object.read().await?["spec"].clone();
    let (field, set) = (format!("/{}", path.join("/")), &object.manifest["spec"]);
    if stored.pointer(&field) != set.pointer(&field) {
        wrong.push(format!("{}: from {set} to {stored}", case.name));
    }
    Ok((wrong, tried))
}

pub async fn immutable_fields_survive_every_sequence_of_edits(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let table: Table = serde_saphyr::from_str(TABLE)?;
    let nodes = table.nodes.iter().map(|case| ("SeiNode", case.clone()));
    let templates =
        table.nodes.iter().filter(|case| !case.node_only).map(|case| ("SeiNodeDeployment", as_fleet(case)));
    let fleets = table.fleets.iter().map(|case| ("SeiNodeDeployment", case.clone()));
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (kind, case) in nodes.chain(templates).chain(fleets) {
        let object = Object::create(&client, &ns, kind, &case.name, &case.spec).await?;
        let (found, edits) = try_all_edits(&object, &case).await?;
        wrong.extend(found);
        tried += edits;
    }
    println!("transitions: {tried} edits");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// An apply that removes the last field of an object temporarily sets it to null, unless the object is atomic or has a default. The
/// API server then rejects a null that the user did not write.
pub async fn objects_can_be_emptied_by_server_side_apply(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let tls = json!({ "fullNode": {}, "sidecar": { "tls": { "issuerName": "ca" } } });
    let plain = json!({ "fullNode": {}, "sidecar": { "port": 7777 } });
    for (name, before, after, stored) in [
        (
            "full-node",
            json!({ "fullNode": { "snapshot": { "stateSync": {} } } }),
            json!({ "fullNode": {} }),
            None,
        ),
        (
            "archive",
            json!({ "archive": { "snapshotGeneration": { "tendermint": { "keepRecent": 1 } } } }),
            json!({ "archive": {} }),
            None,
        ),
        (
            "validator",
            json!({ "validator": { "snapshot": { "stateSync": {} } } }),
            json!({ "validator": {} }),
            None,
        ),
        ("tls-off", tls.clone(), json!({ "fullNode": {}, "sidecar": {} }), Some(plain)),
        ("no-sidecar", tls, json!({ "fullNode": {} }), None),
    ] {
        let spec = |kind: &Value| {
            let mut spec = json!({ "chainId": "pacific-1", "image": "sei:v1" });
            merge(&mut spec, kind);
            spec
        };
        let mut object = Object::create(&client, &ns, "SeiNode", name, &spec(&before)).await?;
        object.manifest["spec"] = spec(&after);
        let now = object.apply(&object.manifest).await.map_err(|error| format!("{name}: {error}"))?;
        assert_eq!(now["spec"], spec(stored.as_ref().unwrap_or(&after)), "{name}");
    }
    Ok(())
}

pub async fn mutable_fields_can_be_changed(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let table: Table = serde_saphyr::from_str(TABLE)?;
    for Mutable { name, spec, edits } in table.mutable {
        let object = Object::create(&client, &ns, "SeiNode", &name, &spec).await?;
        let mut expected = object.read().await?["spec"].clone();
        for change in edits {
            let stored = object
                .edit(Method::MergePatch, &change)
                .await
                .map_err(|error| format!("{name}: {change}: {error}"))?;
            merge(&mut expected, &change);
            let now = stored["spec"].clone();
            // Defaults are set together with their parents.
            for (parent, field, default) in [
                ("/sidecar", "port", json!(7777)),
                ("/validator/operatorKeyring/secret", "keyName", json!("node_admin")),
            ] {
                if let Some(Value::Object(parent)) = expected.pointer_mut(parent) {
                    parent.entry(field).or_insert(default);
                }
            }
            assert_eq!(now, expected, "{name}: {change}");
        }
    }
    Ok(())
}
