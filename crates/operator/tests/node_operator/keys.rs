//! Keys of validators: waited for while they are missing, refused when they are malformed, and never written.

use api::sei_node::SeiNodePhase;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use testbed::{Context, Error, TestResult};

use crate::ground::{Ground, is_ready, message, reason};

/// A key that signs blocks, in shape.
pub const SIGNING_KEY: &str =
    r#"{"address":"A","pub_key":{"type":"t","value":"v"},"priv_key":{"type":"t","value":"v"}}"#;
/// A key that identifies a node, in shape.
pub const NODE_KEY: &str = r#"{"priv_key":{"type":"t","value":"v"}}"#;

/// What a Secret holds.
type Data<'a> = &'a [(&'a str, &'a str)];

/// Makes a validator with what it names.
async fn validator(ground: &Ground<'_>, name: &str, keys: &Value) -> Result<(), Error> {
    let made = ground.create(name, |node| {
        node["spec"].as_object_mut().expect("it has one").remove("fullNode");
        node["spec"]["validator"] = keys.clone();
    });
    made.await.map(drop)
}

fn signing(secret: &str) -> Value {
    both(secret, "good-node")
}

fn node_key(secret: &str) -> Value {
    both("good-signing", secret)
}

/// A validator that signs is also known to its peers.
pub fn both(signing: &str, node: &str) -> Value {
    json!({ "signingKey": { "secret": { "secretName": signing } }, "nodeKey": { "secret": { "secretName": node } } })
}

fn keyring(secret: &str, phrase: &str) -> Value {
    json!({ "operatorKeyring": { "secret": {
        "secretName": secret, "keyName": "admin", "passphraseSecretRef": { "secretName": phrase, "key": "phrase" },
    } } })
}

pub async fn keys_that_come_late_are_waited_for_and_then_used(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let mut all = both("signing", "node");
    all["operatorKeyring"] = keyring("ring", "phrase")["operatorKeyring"].clone();
    validator(&ground, "late", &all).await?;
    let waits_for = |condition: &'static str, secret: &'static str| {
        move |_: &api::SeiNode, status: &api::sei_node::SeiNodeStatus| {
            reason(status, condition).ends_with("NotReady")
                && status
                    .waiting_for
                    .as_ref()
                    .is_some_and(|waiting| waiting.target == format!("Secret/{secret}"))
                && message(status, condition).contains("is not there: create it")
        }
    };
    ground.until("late", "it waits", waits_for("SigningKeyReady", "signing")).await?;
    ground.secret("signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    ground.until("late", "it waits", waits_for("NodeKeyReady", "node")).await?;
    ground.secret("node", &[("node_key.json", NODE_KEY)]).await?;
    ground.until("late", "it waits", waits_for("OperatorKeyringReady", "ring")).await?;
    ground.secret("ring", &[("admin.info", "i"), ("a.address", "a")]).await?;
    ground.secret("phrase", &[("phrase", "open")]).await?;
    let node = ground.until("late", "it has its keys", is_ready).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(reason(&status, "SigningKeyReady"), "SigningKeyValidated");
    assert_eq!(reason(&status, "NodeKeyReady"), "NodeKeyValidated");
    assert_eq!(reason(&status, "OperatorKeyringReady"), "OperatorKeyringValidated");
    assert!(ground.writes()?.iter().all(|write| write.resource != "secrets"), "keys are only read");
    Ok(())
}

pub async fn malformed_keys_fail_the_node_and_better_ones_bring_it_on(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.secret("good-signing", &[("priv_validator_key.json", SIGNING_KEY)]).await?;
    ground.secret("good-node", &[("node_key.json", NODE_KEY)]).await?;
    let no_address = r#"{"pub_key":{"type":"t","value":"v"},"priv_key":{"type":"t","value":"v"}}"#;
    let no_value = r#"{"address":"A","pub_key":{"type":"t","value":""},"priv_key":{"type":"t","value":"v"}}"#;
    let cases: [(&str, &str, Data<'_>, &str); 8] = [
        (
            "signing-other",
            "SigningKeyReady",
            &[("other.json", SIGNING_KEY)],
            "has nothing under priv_validator_key.json",
        ),
        ("signing-empty", "SigningKeyReady", &[("priv_validator_key.json", "")], "has nothing under"),
        ("signing-text", "SigningKeyReady", &[("priv_validator_key.json", "secret words")], "is not JSON"),
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
        ("node-other", "NodeKeyReady", &[("other.json", NODE_KEY)], "has nothing under node_key.json"),
    ];
    for (name, condition, data, _) in cases {
        ground.secret(name, data).await?;
        let keys = if condition == "NodeKeyReady" { node_key(name) } else { signing(name) };
        validator(&ground, name, &keys).await?;
    }
    for (name, condition, data, why) in cases {
        assert_invalid(&ground, name, condition, why, data).await?;
    }
    for (name, condition, ..) in cases {
        let data = if condition == "NodeKeyReady" {
            ("node_key.json", NODE_KEY)
        } else {
            ("priv_validator_key.json", SIGNING_KEY)
        };
        ground.secret(name, &[data]).await?;
    }
    for (name, condition, ..) in cases {
        let node = ground.until(name, "a better key brings it on", is_ready).await?;
        assert!(reason(&node.status.unwrap_or_default(), condition).ends_with("Validated"), "{name}");
    }
    Ok(())
}

pub async fn malformed_keyrings_fail_the_node_and_better_ones_bring_it_on(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let phrase: Data<'_> = &[("phrase", "open")];
    let ring: Data<'_> = &[("admin.info", "i"), ("a.address", "a")];
    let cases: [(&str, Data<'_>, Data<'_>, &str); 6] = [
        ("no-info", &[("a.address", "a")], phrase, "has no admin.info"),
        ("other-info", &[("bob.info", "i"), ("a.address", "a")], phrase, "has no admin.info"),
        ("empty-info", &[("admin.info", ""), ("a.address", "a")], phrase, "admin.info is empty"),
        ("no-address", &[("admin.info", "i")], phrase, "has no *.address"),
        ("no-phrase", ring, &[("other", "open")], "has nothing under phrase"),
        ("empty-phrase", ring, &[("phrase", "")], "has nothing under phrase"),
    ];
    for (name, ring, phrase, _) in cases {
        let phrases = format!("{name}-phrase");
        ground.secret(name, ring).await?;
        ground.secret(&phrases, phrase).await?;
        validator(&ground, name, &keyring(name, &phrases)).await?;
    }
    for (name, _, phrase, why) in cases {
        assert_invalid(&ground, name, "OperatorKeyringReady", why, phrase).await?;
    }
    for (name, ..) in cases {
        ground.secret(name, ring).await?;
        ground.secret(&format!("{name}-phrase"), phrase).await?;
    }
    for (name, ..) in cases {
        let node = ground.until(name, "a better keyring brings it on", is_ready).await?;
        assert_eq!(
            reason(&node.status.unwrap_or_default(), "OperatorKeyringReady"),
            "OperatorKeyringValidated",
            "{name}"
        );
    }
    assert!(ground.api::<Secret>().get("no-info").await?.data.is_some(), "Secrets are kept");
    Ok(())
}

/// The node failed for that reason, and nothing of what the Secret holds is told.
async fn assert_invalid(
    ground: &Ground<'_>,
    name: &str,
    condition: &str,
    why: &str,
    data: Data<'_>,
) -> Result<(), Error> {
    let node =
        ground.until(name, "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
    let status = node.status.unwrap_or_default();
    assert!(reason(&status, condition).ends_with("Invalid"), "{name}: {}", reason(&status, condition));
    assert!(message(&status, condition).contains(why), "{name}: {}", message(&status, condition));
    assert!(message(&status, "Ready").contains(why), "{name}: {}", message(&status, "Ready"));
    let text = serde_json::to_string(&status).unwrap_or_default();
    for (_, value) in data.iter().filter(|(_, value)| value.len() > 4) {
        assert!(!text.contains(value), "{name}: the status tells the key");
    }
    Ok(())
}
