//! Nodes of all kinds, with as much in their specs as can be there at once, and with as little.

use std::collections::BTreeMap;

use api::names::object;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use testbed::Error;
use testbed::cluster::pki::{Authority, ServerNames};

use crate::path::{Path, Step};
use crate::schema::{Schema, sample};

/// The parts of a spec of which exactly one is there.
pub const KINDS: [&str; 4] = ["fullNode", "archive", "replayer", "validator"];

/// A node that runs, before it is edited.
#[derive(Clone, Debug)]
pub struct Specimen {
    pub name: &'static str,
    pub kind: &'static str,
    pub spec: Value,
}

/// All of them. What cannot be there beside other things is left out of one and put into another.
pub fn all(schema: &Schema) -> Vec<Specimen> {
    let rich = |leaf: &str| {
        let elsewhere = [
            ".paused",
            ".dataVolume",
            ".tls.issuer",
            ".ec2Tags",
            ".label",
            ".claims",
            ".stateSync",
            ".bootstrapImage",
        ];
        !elsewhere.iter().any(|part| leaf.contains(part))
    };
    let keys = |leaf: &str| rich(leaf) && !leaf.contains(".genesisCeremony") && !leaf.contains(".snapshot");
    vec![
        specimen(schema, "full-bare", "fullNode", |_| false),
        specimen(schema, "full-rich", "fullNode", rich),
        specimen(schema, "full-tags", "fullNode", |leaf| {
            [".ec2Tags", ".stateSync", ".trustPeriod"].iter().any(|part| leaf.contains(part))
        }),
        specimen(schema, "full-label", "fullNode", |leaf| leaf.contains(".label.")),
        specimen(schema, "archive-bare", "archive", |_| false),
        specimen(schema, "archive-rich", "archive", |leaf| of(leaf, "archive")),
        specimen(schema, "replayer-bare", "replayer", |leaf| {
            [".static", "spec.replayer.snapshot.s3"].iter().any(|part| leaf.contains(part))
        }),
        specimen(schema, "replayer-rich", "replayer", |leaf| {
            leaf.contains(".static") || of(leaf, "replayer") && rich(leaf)
        }),
        specimen(schema, "validator-bare", "validator", |_| false),
        specimen(schema, "validator-keys", "validator", |leaf| of(leaf, "validator") && keys(leaf)),
        specimen(schema, "validator-first", "validator", |leaf| leaf.contains(".genesisCeremony")),
        specimen(schema, "validator-late", "validator", |leaf| of(leaf, "validator.snapshot") && rich(leaf)),
    ]
}

fn of(leaf: &str, part: &str) -> bool {
    leaf.starts_with(&format!("spec.{part}."))
}

/// A node of a kind with these leaves.
fn specimen(schema: &Schema, name: &'static str, kind: &'static str, has: impl Fn(&str) -> bool) -> Specimen {
    let mut spec = json!({ "chainId": "arctic-1", "image": "images.example/sei:v1", kind: {} });
    let of_kind = |path: &Path| path.root() == kind || !KINDS.contains(&path.root());
    for (path, leaf) in schema.leaves().filter(|(path, _)| of_kind(path) && has(&path.to_string())) {
        schema.set(&mut spec, path, sample(path, leaf, 0));
    }
    Specimen { name, kind, spec }
}

/// Makes the Secrets that the specimens name, fit for all of these nodes.
pub async fn make_secrets(
    secrets: &Api<Secret>,
    namespace: &str,
    schema: &Schema,
    nodes: &[String],
) -> Result<(), Error> {
    let hosts = |node: &String| [object::service_host(node, namespace), object::pod_host(node, namespace)];
    let names = ServerNames { dns: nodes.iter().flat_map(hosts).collect(), ..ServerNames::default() };
    let identity = Authority::new("sidecars")?.server("sidecars", &names)?;
    let key = json!({ "type": "a", "value": "a" });
    let whole = json!({ "address": "a", "pub_key": key, "priv_key": key }).to_string();
    let named = |path: &str| {
        let found = schema.leaves().find(|(place, _)| place.to_string() == path);
        let (place, leaf) = found.expect("the schema has it");
        sample(place, leaf, 0).as_str().unwrap_or_default().to_owned()
    };
    let ring = "spec.validator.operatorKeyring.secret";
    let info = format!("{}.info", named(&format!("{ring}.keyName")));
    let phrase = named(&format!("{ring}.passphraseSecretRef.key"));
    let all: [(String, Vec<(&str, String)>); 5] = [
        (
            named("spec.sidecar.tls.secretName"),
            vec![("tls.crt", identity.certificate), ("tls.key", identity.key)],
        ),
        (
            named("spec.validator.signingKey.secret.secretName"),
            vec![("priv_validator_key.json", whole.clone())],
        ),
        (named("spec.validator.nodeKey.secret.secretName"), vec![("node_key.json", whole)]),
        (named(&format!("{ring}.secretName")), vec![(&info, "a".into()), ("a.address", "a".into())]),
        (named(&format!("{ring}.passphraseSecretRef.secretName")), vec![(&phrase, "a".into())]),
    ];
    for (name, data) in all {
        let tls = data.iter().any(|(key, _)| *key == "tls.crt");
        let data: BTreeMap<String, ByteString> =
            data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).collect();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
            type_: tls.then(|| "kubernetes.io/tls".into()),
            data: Some(data),
            ..Secret::default()
        };
        secrets.create(&PostParams::default(), &secret).await?;
    }
    Ok(())
}

/// What must be there beside a leaf where it is said by a rule and not by the schema.
pub fn companions(path: &Path) -> Vec<(Path, Value)> {
    let field = |parent: &[Step], names: &[&str]| {
        let steps = parent.iter().cloned().chain(names.iter().map(|name| Step::Field((*name).into())));
        Path(steps.collect())
    };
    let text = path.to_string();
    let parent = &path.0[..path.0.len().saturating_sub(1)];
    let key = |name: &str| {
        vec![(
            field(&path.0[..1], &[name, "secret", "secretName"]),
            json!(format!("{}-a", name.to_lowercase())),
        )]
    };
    if text.contains(".snapshot.") && !text.contains(".s3") && !text.contains(".stateSync") {
        return vec![(field(parent, &["s3", "targetHeight"]), json!(1))];
    }
    if text.ends_with(".tls.issuerKind") {
        return vec![(field(parent, &["issuerName"]), json!("issuer"))];
    }
    if text.ends_with(".publish") {
        return vec![(field(parent, &["keepRecent"]), json!(2))];
    }
    if text.contains(".signingKey") {
        return key("nodeKey");
    }
    if text.contains(".nodeKey") {
        return key("signingKey");
    }
    Vec::new()
}
