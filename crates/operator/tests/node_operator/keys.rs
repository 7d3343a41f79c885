//! Keys of validators: waited for while missing, rejected when malformed, and never written.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use operator::install;
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, apply, message, reason};

/// How soon a Secret is noticed that a node waits for.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// The shape of a consensus signing key.
pub const SIGNING_KEY: &str =
    r#"{"address":"A","pub_key":{"type":"t","value":"v"},"priv_key":{"type":"t","value":"v"}}"#;
/// The shape of a node key.
pub const NODE_KEY: &str = r#"{"priv_key":{"type":"t","value":"v"}}"#;

/// The data of a Secret.
type Data<'a> = &'a [(&'a str, &'a str)];

/// Creates a validator with these keys.
async fn validator(fixture: &Fixture<'_>, name: &str, keys: &Value) -> Result<(), Error> {
    let created = fixture.create(name, |node| {
        node["spec"].as_object_mut().expect("an object").remove("fullNode");
        node["spec"]["validator"] = keys.clone();
    });
    created.await.map(drop)
}

fn signing(secret: &str) -> Value {
    both(secret, "good-node")
}

/// A signing key belongs to one node.
fn node_key(secret: &str) -> Value {
    both(&format!("{secret}-signing"), secret)
}

/// Returns the keys of a validator. A signing key requires a node key.
pub fn both(signing: &str, node: &str) -> Value {
    json!({ "signingKey": { "secret": { "secretName": signing } }, "nodeKey": { "secret": { "secretName": node } } })
}

fn keyring(secret: &str, phrase: &str) -> Value {
    json!({ "operatorKeyring": { "secret": {
        "secretName": secret, "keyName": "admin", "passphraseSecretRef": { "secretName": phrase, "key": "phrase" },
    } } })
}

pub async fn missing_keys_are_waited_for(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let mut all = both("signing", "node");
    all["operatorKeyring"] = keyring("ring", "phrase")["operatorKeyring"].clone();
    validator(&fixture, "late", &all).await?;
    let is_waiting_for = |condition: &'static str, secret: &'static str| {
        move |_: &api::SeiNode, status: &api::sei_node::SeiNodeStatus| {
            reason(status, condition).ends_with("NotReady")
                && status
                    .waiting_for
                    .as_ref()
                    .is_some_and(|waiting| waiting.target == format!("Secret/{secret}"))
                && message(status, condition).contains("not found: create it")
        }
    };
    fixture.wait_until("late", "it is waiting", is_waiting_for("SigningKeyReady", "signing")).await?;
    let begin = Instant::now();
    fixture.put_secret("signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    fixture.wait_until("late", "it is waiting", is_waiting_for("NodeKeyReady", "node")).await?;
    assert!(begin.elapsed() < NOTICED_WITHIN, "noticed after {:?}", begin.elapsed());
    fixture.put_secret("node", &[("node_key.json", NODE_KEY)]).await?;
    fixture.wait_until("late", "it is waiting", is_waiting_for("OperatorKeyringReady", "ring")).await?;
    fixture.put_secret("ring", &[("admin.info", "i"), ("a.address", "a")]).await?;
    fixture.put_secret("phrase", &[("phrase", "open")]).await?;
    let node = fixture.wait_ready("late", "it is ready with all keys").await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(reason(&status, "SigningKeyReady"), "SigningKeyValidated");
    assert_eq!(reason(&status, "NodeKeyReady"), "NodeKeyValidated");
    assert_eq!(reason(&status, "OperatorKeyringReady"), "OperatorKeyringValidated");
    let requests = fixture.requests()?.into_iter().filter(|request| request.resource == "secrets");
    let verbs: BTreeSet<String> = requests.map(|request| request.verb).collect();
    assert_eq!(verbs, BTreeSet::from(["get".to_owned()]), "keys are only read, by name");
    Ok(())
}

/// The namespace lacks what `deploy/operator/node-namespace` installs.
pub async fn missing_permission_for_secrets_is_reported_with_its_fix(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    kubectl::run(fixture.plane, &["delete", "rolebinding", "--all", "--namespace", &fixture.ns], None)?;
    let _operator = fixture.start_operator()?;
    fixture.put_secret("signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    fixture.put_secret("node", &[("node_key.json", NODE_KEY)]).await?;
    validator(&fixture, "denied", &both("signing", "node")).await?;
    let fix = format!(
        "Secret signing cannot be read: the operator is not permitted to read Secrets in namespace {} (403): apply \
         deploy/operator/node-namespace in that namespace, as examples/nodes does",
        fixture.ns
    );
    let is_reported = |_: &api::SeiNode, status: &api::sei_node::SeiNodeStatus| {
        reason(status, "SigningKeyReady").ends_with("NotReady") && message(status, "SigningKeyReady") == fix
    };
    fixture.wait_until("denied", "the missing permission is reported", is_reported).await?;
    let begin = Instant::now();
    apply(fixture.plane, &install::node_namespace(&fixture.ns))?;
    fixture.wait_ready("denied", "it is ready with the permission").await?;
    println!("ready {:?} after the permission was granted", begin.elapsed());
    Ok(())
}

pub async fn malformed_keys_fail_the_node_until_replaced(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.put_secret("good-node", &[("node_key.json", NODE_KEY)]).await?;
    let no_address = r#"{"pub_key":{"type":"t","value":"v"},"priv_key":{"type":"t","value":"v"}}"#;
    let no_value = r#"{"address":"A","pub_key":{"type":"t","value":""},"priv_key":{"type":"t","value":"v"}}"#;
    let cases: [(&str, &str, Data<'_>, &str); 8] = [
        (
            "signing-other",
            "SigningKeyReady",
            &[("other.json", SIGNING_KEY)],
            "has no value for key priv_validator_key.json",
        ),
        ("signing-empty", "SigningKeyReady", &[("priv_validator_key.json", "")], "has no value for key"),
        ("signing-text", "SigningKeyReady", &[("priv_validator_key.json", "opaque-value")], "is not JSON"),
        ("signing-address", "SigningKeyReady", &[("priv_validator_key.json", no_address)], "has no address"),
        (
            "signing-value",
            "SigningKeyReady",
            &[("priv_validator_key.json", no_value)],
            "has no pub_key.value",
        ),
        ("node-text", "NodeKeyReady", &[("node_key.json", "[")], "is not JSON"),
        (
            "node-type",
            "NodeKeyReady",
            &[("node_key.json", r#"{"priv_key":{"value":"v"}}"#)],
            "has no priv_key.type",
        ),
        ("node-other", "NodeKeyReady", &[("other.json", NODE_KEY)], "has no value for key node_key.json"),
    ];
    for (name, condition, data, _) in cases {
        fixture.put_secret(name, data).await?;
        let signing_key = [("priv_validator_key.json", SIGNING_KEY)];
        fixture.put_secret(&format!("{name}-signing"), &signing_key).await?;
        let keys = if condition == "NodeKeyReady" { node_key(name) } else { signing(name) };
        validator(&fixture, name, &keys).await?;
    }
    for (name, condition, data, reason_text) in cases {
        assert_invalid(&fixture, name, condition, reason_text, data).await?;
    }
    for (name, condition, ..) in cases {
        let data = if condition == "NodeKeyReady" {
            ("node_key.json", NODE_KEY)
        } else {
            ("priv_validator_key.json", SIGNING_KEY)
        };
        fixture.put_secret(name, &[data]).await?;
    }
    for (name, condition, ..) in cases {
        let node = fixture.wait_ready(name, "it is ready with the fixed key").await?;
        assert!(reason(&node.status.unwrap_or_default(), condition).ends_with("Validated"), "{name}");
    }
    Ok(())
}

pub async fn malformed_keyrings_fail_the_node_until_replaced(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let phrase: Data<'_> = &[("phrase", "open")];
    let ring: Data<'_> = &[("admin.info", "i"), ("a.address", "a")];
    let cases: [(&str, Data<'_>, Data<'_>, &str); 6] = [
        ("no-info", &[("a.address", "a")], phrase, "has no admin.info"),
        ("other-info", &[("bob.info", "i"), ("a.address", "a")], phrase, "has no admin.info"),
        ("empty-info", &[("admin.info", ""), ("a.address", "a")], phrase, "admin.info is empty"),
        ("no-address", &[("admin.info", "i")], phrase, "has no *.address"),
        ("no-phrase", ring, &[("other", "open")], "has no value for key phrase"),
        ("empty-phrase", ring, &[("phrase", "")], "has no value for key phrase"),
    ];
    for (name, ring, phrase, _) in cases {
        let phrases = format!("{name}-phrase");
        fixture.put_secret(name, ring).await?;
        fixture.put_secret(&phrases, phrase).await?;
        validator(&fixture, name, &keyring(name, &phrases)).await?;
    }
    for (name, _, phrase, reason_text) in cases {
        assert_invalid(&fixture, name, "OperatorKeyringReady", reason_text, phrase).await?;
    }
    for (name, ..) in cases {
        fixture.put_secret(name, ring).await?;
        fixture.put_secret(&format!("{name}-phrase"), phrase).await?;
    }
    for (name, ..) in cases {
        let node = fixture.wait_ready(name, "it is ready with the fixed keyring").await?;
        assert_eq!(
            reason(&node.status.unwrap_or_default(), "OperatorKeyringReady"),
            "OperatorKeyringValidated",
            "{name}"
        );
    }
    assert!(fixture.api::<Secret>().get("no-info").await?.data.is_some(), "Secrets are kept");
    Ok(())
}

/// Asserts that the node failed for this reason, and that its status contains no value of the Secret.
async fn assert_invalid(
    fixture: &Fixture<'_>,
    name: &str,
    condition: &str,
    reason_text: &str,
    data: Data<'_>,
) -> Result<(), Error> {
    let node = fixture.wait_failed(name).await?;
    let status = node.status.unwrap_or_default();
    assert!(reason(&status, condition).ends_with("Invalid"), "{name}: {}", reason(&status, condition));
    assert!(message(&status, condition).contains(reason_text), "{name}: {}", message(&status, condition));
    assert!(message(&status, "Ready").contains(reason_text), "{name}: {}", message(&status, "Ready"));
    let text = serde_json::to_string(&status).unwrap_or_default();
    for (_, value) in data.iter().filter(|(_, value)| value.len() > 4) {
        assert!(!text.contains(value), "{name}: the status contains the key");
    }
    Ok(())
}
