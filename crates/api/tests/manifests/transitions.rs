//! What cannot change, tried in every way the API has, in one edit and in two; and what can.

use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use testbed::{Context, TestResult};

use crate::plane::{Error, call, collection, merge, with_our_kinds};

const TABLE: &str = include_str!("cases/fixed.yaml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    nodes: Vec<Fixed>,
    fleets: Vec<Fixed>,
    changeable: Vec<Changeable>,
}

/// One field that cannot change.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixed {
    name: String,
    #[serde(default)]
    alone: bool,
    spec: Value,
    field: String,
    #[serde(default)]
    other: Value,
    edits: Vec<Value>,
    refused: String,
}

/// An object whose fields change one after the other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changeable {
    name: String,
    spec: Value,
    edits: Vec<Value>,
}

/// The ways in which an edit reaches the API server. "Null" writes what is removed as `null`, where the others leave it out.
#[derive(Clone, Copy, Debug)]
enum Way {
    MergePatch,
    Update,
    UpdateWithNull,
    Apply,
    ApplyWithNull,
}

/// The ways that differ where nothing is removed.
const WAYS_TO_SET: [Way; 3] = [Way::MergePatch, Way::Update, Way::Apply];

const WAYS: [Way; 5] = [Way::MergePatch, Way::Update, Way::UpdateWithNull, Way::Apply, Way::ApplyWithNull];

/// One stored object.
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
    async fn edit(&self, way: Way, change: &Value) -> Result<Value, String> {
        let change = json!({ "spec": change });
        match way {
            Way::MergePatch => call(&self.client, "PATCH", &self.path, &change).await,
            Way::Update | Way::UpdateWithNull => {
                let mut stored = self.read().await?;
                edit(&mut stored, &change, matches!(way, Way::UpdateWithNull));
                call(&self.client, "PUT", &self.path, &stored).await
            }
            Way::Apply | Way::ApplyWithNull => {
                let mut manifest = self.manifest.clone();
                edit(&mut manifest, &change, matches!(way, Way::ApplyWithNull));
                self.apply(&manifest).await
            }
        }
    }
}

fn edit(target: &mut Value, change: &Value, keep_null: bool) {
    if keep_null { merge_with_null(target, change) } else { merge(target, change) }
}

/// A merge patch that leaves `null` where it removes.
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

/// `value` at a dotted path.
fn at(path: &[&str], value: &Value) -> Value {
    path.iter()
        .rev()
        .fold(value.clone(), |below, key| Value::Object(Map::from_iter([((*key).to_owned(), below)])))
}

/// Edits that a person might try to get rid of a field: it and each of its parents removed, which empties those above.
fn removals(fixed: &Fixed) -> Vec<Value> {
    let path: Vec<&str> = fixed.field.split('.').collect();
    (1..=path.len()).map(|depth| at(&path[..depth], &Value::Null)).collect()
}

/// The same spec as the template of a fleet.
fn as_fleet(node: &Fixed) -> Fixed {
    let below_template = |value: &Value| json!({ "template": { "spec": value } });
    let mut spec = below_template(&node.spec);
    spec["replicas"] = 1.into();
    Fixed {
        name: format!("fleet-{}", node.name),
        spec,
        field: format!("template.spec.{}", node.field),
        edits: node.edits.iter().map(below_template).collect(),
        ..node.clone()
    }
}

/// Tries everything on one object and returns what went wrong, and how many edits were tried.
async fn attack(object: &Object, fixed: &Fixed) -> Result<(Vec<String>, usize), Error> {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    let path: Vec<&str> = fixed.field.split('.').collect();
    let to_other = at(&path, &fixed.other);
    for way in WAYS {
        for change in &fixed.edits {
            tried += 1;
            match object.edit(way, change).await {
                Ok(_) => wrong.push(format!("{}: {way:?} of {change} was accepted", fixed.name)),
                // Only an apply keeps a null that it was given; it is refused for its shape, before any rule is asked.
                Err(said) if !said.contains(&fixed.refused) && !matches!(way, Way::ApplyWithNull) => {
                    wrong.push(format!("{}: {way:?} of {change} was refused otherwise: {said}", fixed.name));
                }
                Err(_) => {}
            }
        }
        for first in removals(fixed) {
            tried += 1;
            // An edit that is refused leaves the object as it was, and the second is then the only one, which is tried above.
            if object.edit(way, &first).await.is_err() || fixed.other.is_null() {
                continue;
            }
            for second_way in WAYS_TO_SET {
                tried += 1;
                if object.edit(second_way, &to_other).await.is_ok() {
                    wrong.push(format!(
                        "{}: {way:?} of {first}, then {second_way:?} of {to_other} were accepted",
                        fixed.name
                    ));
                }
            }
        }
    }
    let stored = object.read().await?["spec"].clone();
    let (field, set) = (format!("/{}", path.join("/")), &object.manifest["spec"]);
    if stored.pointer(&field) != set.pointer(&field) {
        wrong.push(format!("{}: from {set} to {stored}", fixed.name));
    }
    Ok((wrong, tried))
}

pub async fn defect_12_what_cannot_change_does_not_in_one_edit_nor_in_two(cx: Context) -> TestResult {
    let plane = with_our_kinds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let table: Table = serde_saphyr::from_str(TABLE)?;
    let nodes = table.nodes.iter().map(|fixed| ("SeiNode", fixed.clone()));
    let templates =
        table.nodes.iter().filter(|fixed| !fixed.alone).map(|fixed| ("SeiNodeDeployment", as_fleet(fixed)));
    let fleets = table.fleets.iter().map(|fixed| ("SeiNodeDeployment", fixed.clone()));
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (kind, fixed) in nodes.chain(templates).chain(fleets) {
        let object = Object::create(&client, &ns, kind, &fixed.name, &fixed.spec).await?;
        let (found, edits) = attack(&object, &fixed).await?;
        wrong.extend(found);
        tried += edits;
    }
    println!("transitions: {tried} edits");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// An apply that removes the last field of an object makes it null on the way, unless the object is atomic or has a default;
/// the user is then told of a null that nobody wrote.
pub async fn an_object_can_be_emptied_by_an_apply(cx: Context) -> TestResult {
    let plane = with_our_kinds(&cx).await?;
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
        let now = object.apply(&object.manifest).await.map_err(|said| format!("{name}: {said}"))?;
        assert_eq!(now["spec"], spec(stored.as_ref().unwrap_or(&after)), "{name}");
    }
    Ok(())
}

pub async fn what_can_change_does(cx: Context) -> TestResult {
    let plane = with_our_kinds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let table: Table = serde_saphyr::from_str(TABLE)?;
    for Changeable { name, spec, edits } in table.changeable {
        let object = Object::create(&client, &ns, "SeiNode", &name, &spec).await?;
        let mut expected = object.read().await?["spec"].clone();
        for change in edits {
            let stored = object
                .edit(Way::MergePatch, &change)
                .await
                .map_err(|said| format!("{name}: {change}: {said}"))?;
            merge(&mut expected, &change);
            let now = stored["spec"].clone();
            // Defaults come with what they are defaults of.
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
