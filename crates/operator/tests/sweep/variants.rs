//! Node variants: nodes of all kinds with minimal specs, and with as many fields as are valid together.

use std::collections::BTreeMap;

use api::names::object;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use testbed::Error;
use testbed::cluster::pki::{CertificateAuthority, ServerNames};

use crate::path::{Path, Step};
use crate::schema::{Schema, sample};

/// The fields of a spec of which exactly one is set.
pub const KINDS: [&str; 4] = ["fullNode", "archive", "replayer", "validator"];

/// A node before it is edited.
#[derive(Clone, Debug)]
pub struct Variant {
    pub name: &'static str,
    pub kind: &'static str,
    pub spec: Value,
}

/// Returns all variants. Fields that are mutually exclusive are in different variants.
pub fn all(schema: &Schema) -> Vec<Variant> {
    let rich = |leaf: &str| {
        let excluded = [
            ".paused",
            ".dataVolume",
            ".tls.issuer",
            ".ec2Tags",
            ".label.",
            ".claims",
            ".stateSync",
            ".bootstrapImage",
            // No such PriorityClass: the pod would not be created.
            ".priorityClassName",
        ];
        !excluded.iter().any(|part| leaf.contains(part))
    };
    let keys = |leaf: &str| rich(leaf) && !leaf.contains(".genesisCeremony") && !leaf.contains(".snapshot");
    vec![
        variant(schema, "full-bare", "fullNode", |_| false),
        variant(schema, "full-rich", "fullNode", rich),
        variant(schema, "full-tags", "fullNode", |leaf| {
            [".ec2Tags", ".stateSync", ".trustPeriod"].iter().any(|part| leaf.contains(part))
        }),
        variant(schema, "full-label", "fullNode", |leaf| leaf.contains(".label.")),
        variant(schema, "archive-bare", "archive", |_| false),
        variant(schema, "archive-rich", "archive", |leaf| is_below(leaf, "archive")),
        variant(schema, "replayer-bare", "replayer", |leaf| {
            [".static", "spec.replayer.snapshot.s3"].iter().any(|part| leaf.contains(part))
        }),
        variant(schema, "replayer-rich", "replayer", |leaf| {
            leaf.contains(".static") || is_below(leaf, "replayer") && rich(leaf)
        }),
        variant(schema, "validator-bare", "validator", |_| false),
        variant(schema, "validator-keys", "validator", |leaf| is_below(leaf, "validator") && keys(leaf)),
        variant(schema, "validator-first", "validator", |leaf| leaf.contains(".genesisCeremony")),
        variant(schema, "validator-late", "validator", |leaf| {
            is_below(leaf, "validator.snapshot") && rich(leaf)
        }),
    ]
}

fn is_below(leaf: &str, part: &str) -> bool {
    leaf.starts_with(&format!("spec.{part}."))
}

/// Builds a variant of a kind with these leaf fields.
fn variant(schema: &Schema, name: &'static str, kind: &'static str, has: impl Fn(&str) -> bool) -> Variant {
    let mut spec = json!({ "chainId": "arctic-1", "image": "images.example/sei:v1", kind: {} });
    let is_of_kind = |path: &Path| path.root() == kind || !KINDS.contains(&path.root());
    for (path, leaf) in schema.leaves().filter(|(path, _)| is_of_kind(path) && has(&path.to_string())) {
        schema.set(&mut spec, path, sample(path, leaf, 0));
    }
    Variant { name, kind, spec }
}

/// Creates the Secrets that the variants reference, valid for all of these nodes.
pub async fn create_secrets(
    secrets: &Api<Secret>,
    namespace: &str,
    schema: &Schema,
    nodes: &[String],
) -> Result<(), Error> {
    let hosts = |node: &String| [object::service_host(node, namespace), object::pod_host(node, namespace)];
    let names = ServerNames { dns: nodes.iter().flat_map(hosts).collect(), ..ServerNames::default() };
    let identity = CertificateAuthority::new("sidecars")?.issue_server("sidecars", &names)?;
    let key = json!({ "type": "a", "value": "a" });
    let private_key = json!({ "address": "a", "pub_key": key, "priv_key": key }).to_string();
    let sample_name = |field: &str| {
        let found = schema.leaves().find(|(path, _)| path.to_string() == field);
        let (path, leaf) = found.expect("a field of the schema");
        sample(path, leaf, 0).as_str().unwrap_or_default().to_owned()
    };
    let keyring = "spec.validator.operatorKeyring.secret";
    let info = format!("{}.info", sample_name(&format!("{keyring}.keyName")));
    let phrase = sample_name(&format!("{keyring}.passphraseSecretRef.key"));
    let all: [(String, Vec<(&str, String)>); 5] = [
        (
            sample_name("spec.sidecar.tls.secretName"),
            vec![("tls.crt", identity.certificate), ("tls.key", identity.key)],
        ),
        (
            sample_name("spec.validator.signingKey.secret.secretName"),
            vec![("priv_validator_key.json", private_key.clone())],
        ),
        (sample_name("spec.validator.nodeKey.secret.secretName"), vec![("node_key.json", private_key)]),
        (sample_name(&format!("{keyring}.secretName")), vec![(&info, "a".into()), ("a.address", "a".into())]),
        (sample_name(&format!("{keyring}.passphraseSecretRef.secretName")), vec![(&phrase, "a".into())]),
    ];
    for (name, data) in all {
        let is_tls = data.iter().any(|(key, _)| *key == "tls.crt");
        let data: BTreeMap<String, ByteString> =
            data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).collect();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
            type_: is_tls.then(|| "kubernetes.io/tls".into()),
            data: Some(data),
            ..Secret::default()
        };
        secrets.create(&PostParams::default(), &secret).await?;
    }
    Ok(())
}

/// Returns the fields that a validation rule, not the schema, requires together with a leaf.
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
    if text.contains(".tolerations[0]") {
        let effect =
            text.ends_with(".tolerationSeconds").then(|| (field(parent, &["effect"]), json!("NoExecute")));
        return effect.into_iter().chain([(field(parent, &["key"]), json!("taint"))]).collect();
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
